package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir.dev/weir/server"
	"weir.dev/weir/server/offline"
)

func policyTestCommand() *cobra.Command {
	var f caseFlags
	var verbose bool
	var junit string
	command := &cobra.Command{
		Use:   "test DIR...",
		Short: "Run the cases of policies, as go test would",
		Long: `Run the cases of policies, without a server: each directory at and below DIR that has
a directory cases. In it are, in YAML files of any name,

  a policy          ValidatingAdmissionPolicy, MutatingAdmissionPolicy or Policy
  its binding       without one, the policy denies, by every object of its paramKind
  params            objects of the paramKind
  definitions       CustomResourceDefinitions of kinds that are not built in
  namespaces        those that matter by more than their name
  a Module          whose source is inline or a file beside it, or just MODULE.wasm

and perhaps the same policy in policy.rego and in policy.wasm or policy.c, which then
has to pass the same cases. The cases are cases/*.yaml:

  base: {apiVersion: v1, kind: Pod, ...}   # what change changes
  cases:
  - name: no labels
    change: {metadata: {labels: null}}     # a merge patch of base; or object: a whole one
    expect: denied                         # allowed, denied, failed or unmatched
    messages: ["labels are missing: team"]

Beside change and object there are oldChange and oldObject, operation, params (null:
none), namespaceObject, request (fields of the AdmissionRequest: userInfo, ...) and allow:
what authorizer says users may do, as [{verb: use, resource: quotas, name: big}].
Beside messages there are warnings, and patchedChange or patched: the object as mutating
policies leave it. unmatched says that no policy concerns the request, failed that one
could not be evaluated. Objects are judged as they stand, without defaults.

Exit code: 0 all pass; 1 some do not, or a policy does not compile; 2 nothing could be
run: a DIR without cases, a --run that no case matches.`,
		Example: `  weir policy test policies/library
  weir policy test policies/library/replicas --run scale -v
  weir policy test . --junit report.xml`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("a directory is missing: %s", command.UseLine())
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			return testPolicies(command, args, &f, verbose, junit)
		},
	}
	f.add(command)
	command.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what passes too, with its cost")
	command.Flags().StringVar(&junit, "junit", "", "write a report in JUnit's XML to this file")
	return command
}

// caseResult is what came of one case.
type caseResult struct {
	name     string
	at       string // FILE:LINE
	took     time.Duration
	problems []string
}

// dirResult is what came of one directory.
type dirResult struct {
	dir   caseDir
	took  time.Duration
	cases []caseResult
	// err says why the directory could not be used.
	err error
}

func (r *dirResult) failed() int {
	failed := 0
	for i := range r.cases {
		if len(r.cases[i].problems) > 0 {
			failed++
		}
	}
	return failed
}

// testPolicies runs cases and prints what came of them.
func testPolicies(command *cobra.Command, roots []string, f *caseFlags, verbose bool, junit string) error {
	choose, err := regexp.Compile(f.run)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	if err := f.check(); err != nil {
		return err
	}
	dirs, err := caseDirs(roots)
	if err != nil {
		return err
	}
	w, err := f.open(command, false)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // the process ends
	out, ran, bad := command.OutOrStdout(), 0, false
	results := make([]dirResult, 0, len(dirs))
	for _, dir := range dirs {
		r := testDir(command.Context(), w, dir, f, choose, func(c *caseResult, cost string) { printCase(out, c, cost, verbose) })
		if err := command.Context().Err(); err != nil {
			return err
		}
		printDir(out, &r)
		ran, bad = ran+len(r.cases), bad || r.err != nil || r.failed() > 0
		results = append(results, r)
	}
	if junit != "" {
		if err := writeJUnit(junit, results); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	switch {
	case bad:
		return exitCode(1)
	case ran == 0:
		return fmt.Errorf("no case was run: none %s", f.chosen())
	}
	return nil
}

// testDir runs the cases of a directory, and tells of each.
func testDir(ctx context.Context, w *server.Offline, dir caseDir, f *caseFlags, choose *regexp.Regexp, tell func(c *caseResult, cost string)) dirResult {
	r, start := dirResult{dir: dir}, time.Now()
	defer func() { r.took = time.Since(start) }()
	cases, err := w.LoadCases(ctx, os.DirFS(dir.root), dir.dir, offline.CaseOptions{Wasm: moduleBeside(dir.root), Engines: f.engines})
	if err != nil {
		r.err = err
		r.took = time.Since(start)
		return r
	}
	defer cases.Close()
	for _, c := range cases.Cases {
		name := dir.name() + "/" + c.Name
		if !choose.MatchString(name) || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		got := c.Run(ctx)
		result := caseResult{name: c.Name, at: dir.file(c.File), took: time.Since(began), problems: got.Problems}
		if c.Line > 0 {
			result.at = fmt.Sprintf("%s:%d", result.at, c.Line)
		}
		r.cases = append(r.cases, result)
		tell(&result, costText(c.Engine, got.Cost.Used, got.Cost.Proven))
	}
	r.took = time.Since(start)
	return r
}

// costText says what a judgement cost, in the units of its engine.
func costText(engine string, used, proven uint64) string {
	switch {
	case used == 0 && proven == 0:
		return ""
	case used == 0:
		return fmt.Sprintf(" at most %s %s", grouped(proven), costUnit(engine))
	case proven == 0:
		return fmt.Sprintf(" %s %s", grouped(used), costUnit(engine))
	}
	return fmt.Sprintf(" %s %s, and at most %s more", grouped(used), costUnit(engine), grouped(proven))
}

// costUnit is what an engine counts.
func costUnit(engine string) string {
	switch engine {
	case offline.EngineRego:
		return "steps"
	case offline.EngineWasm:
		return "fuel"
	}
	return "of CEL"
}

func printCase(out io.Writer, c *caseResult, cost string, verbose bool) {
	if len(c.problems) == 0 {
		if verbose {
			fmt.Fprintf(out, "--- PASS: %s (%.2fs)%s\n", c.name, c.took.Seconds(), cost)
		}
		return
	}
	fmt.Fprintf(out, "--- FAIL: %s (%.2fs)\n    %s:\n", c.name, c.took.Seconds(), c.at)
	for _, text := range c.problems {
		fmt.Fprintf(out, "        %s\n", strings.ReplaceAll(text, "\n", "\n        "))
	}
}

// printDir is the last line of a directory, as go test prints one for a package.
func printDir(out io.Writer, r *dirResult) {
	name, took := r.dir.name(), fmt.Sprintf("%.2fs", r.took.Seconds())
	switch failed := r.failed(); {
	case r.err != nil:
		fmt.Fprintf(out, "    %s\nFAIL\t%s [cannot be used]\n", strings.ReplaceAll(r.err.Error(), "\n", "\n    "), name)
	case failed > 0:
		fmt.Fprintf(out, "FAIL\t%s\t%s\t%d of %d cases\n", name, took, failed, len(r.cases))
	case len(r.cases) == 0:
		fmt.Fprintf(out, "?   \t%s\t%s\t[no cases to run]\n", name, took)
	default:
		fmt.Fprintf(out, "ok  \t%s\t%s\t%d cases\n", name, took, len(r.cases))
	}
}
