package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir.dev/weir/host"
	"weir.dev/weir/sdk/cases"
)

// suiteFlags say which module, which cases and how.
type suiteFlags struct {
	cases, run, cacheDir string
	limits               limitFlags
}

func (f *suiteFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.cases, "cases", "", "directory of the cases (default: cases beside the module)")
	flags.StringVar(&f.run, "run", "", "only cases whose file/name matches this regular expression")
	flags.Uint64Var(&f.limits.fuel, "fuel", host.DefaultFuel, "most instructions of a call")
	flags.IntVar(&f.limits.memory, "memory", host.DefaultMemoryBytes, "most bytes of memory")
	flags.StringVar(&f.cacheDir, "cache-dir", defaultCacheDir(), "directory of compiled modules; empty: compile each time")
}

// errNoCases is told of a module that has none.
var errNoCases = errors.New("no cases")

// load reads the module, and the cases that are chosen.
func (f *suiteFlags) load(command *cobra.Command, path string) (wasm []byte, suites []*cases.Suite, err error) {
	dir := f.cases
	if dir == "" {
		dir = filepath.Join(path, "cases")
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			dir = filepath.Join(filepath.Dir(path), "cases")
		}
	}
	if _, err := os.Stat(path); err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: there is no directory %s; `weir module test --help` shows what is in one, --cases names another", errNoCases, dir)
	}
	choose, err := regexp.Compile(f.run)
	if err != nil {
		return nil, nil, fmt.Errorf("--run: %w", err)
	}
	all, err := cases.Load(os.DirFS(dir), ".")
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	for _, suite := range all {
		chosen := &cases.Suite{Name: suite.Name}
		for _, c := range suite.Cases {
			if choose.MatchString(suite.Name + "/" + c.Name) {
				chosen.Cases = append(chosen.Cases, c)
			}
		}
		if len(chosen.Cases) > 0 {
			suites = append(suites, chosen)
		}
	}
	wasm, err = readModule(command.Context(), path, command.ErrOrStderr())
	return wasm, suites, err
}

// runner makes what runs cases; done ends it.
func (f *suiteFlags) runner(ctx context.Context, path string, wasm []byte, logger *slog.Logger) (r *cases.Runner, done func(), err error) {
	runtime, err := newRuntime(f.cacheDir)
	if err != nil {
		return nil, nil, err
	}
	r = cases.NewRunner(runtime, wasm, host.ModuleConfig{Name: moduleName(path), Limits: f.limits.limits(), Logger: logger})
	return r, func() {
		_ = r.Close(context.WithoutCancel(ctx))       // the process ends
		_ = runtime.Close(context.WithoutCancel(ctx)) // and with it what is left
	}, nil
}

// newRuntime makes a runtime that keeps compiled modules in a directory.
func newRuntime(cacheDir string) (*host.Runtime, error) {
	if cacheDir != "" {
		if err := os.MkdirAll(cacheDir, 0o700); err != nil {
			return nil, fmt.Errorf("--cache-dir: %w", err)
		}
	}
	return host.NewRuntime(host.Config{CacheDir: cacheDir})
}

// moduleName names a module by its file or directory.
func moduleName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return strings.TrimSuffix(filepath.Base(path), ".wasm")
}

func moduleTestCommand() *cobra.Command {
	var f suiteFlags
	var verbose bool
	command := &cobra.Command{
		Use:   "test DIR|FILE",
		Short: "Run the cases of a module, as go test would",
		Long: `Run the cases of a module: what a hook is called with, and what has to come of it.
They are YAML files in the directory cases beside the module:

  settings: {maxReplicas: 10}        # of the module, in every case without its own
  base: {apiVersion: apps/v1, ...}   # what change changes
  cases:
  - name: too many replicas
    hook: validateCreate
    change: {spec: {replicas: 11}}   # a merge patch of base; or object: a whole one
    expect:
      errors: [{type: FieldValueInvalid, field: spec.replicas, value: 11}]

Beside change and object there are oldChange and oldObject, options, params,
namespace, targetVersion and request (user, name, ...), and in a case or a file
objects: [...], which the module can look up, and allow: [{verb, resource, ...}],
what authorize allows; cases/objects/*.yaml are for all. What is expected is nothing,
but: change or object (what the hook makes of it), errors, denied, warnings, audit,
failure (its class, as trap), refused (part of what refuses the settings).

If DIR is a directory, the module in it is built first. Exit code: 0 all pass,
1 some do not, 2 they could not be run.`,
		Example: "  weir module test .\n  weir module test quotes.wasm --cases cases -v",
		Args:    exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return testModule(command, args[0], &f, verbose)
		},
	}
	f.add(command)
	command.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what passes too, with its fuel")
	return command
}

// testModule runs cases and prints what came of them.
func testModule(command *cobra.Command, path string, f *suiteFlags, verbose bool) error {
	ctx, out := command.Context(), command.OutOrStdout()
	start := time.Now()
	wasm, suites, err := f.load(command, path)
	if err != nil {
		return err
	}
	var logs strings.Builder
	r, done, err := f.runner(ctx, path, wasm, slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		return err
	}
	defer done()
	ran, failed := 0, 0
	for _, suite := range suites {
		for _, c := range suite.Cases {
			logs.Reset()
			began := time.Now()
			outcome, err := r.Run(ctx, c)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", suite.Name, c.Name, err)
			}
			ran++
			name := fmt.Sprintf("%s/%s (%.2fs)", suite.Name, c.Name, time.Since(began).Seconds())
			if len(outcome.Problems) > 0 {
				failed++
				fmt.Fprintf(out, "--- FAIL: %s\n", name)
				for _, text := range append(outcome.Problems, strings.Split(strings.TrimSpace(logs.String()), "\n")...) {
					if text != "" {
						fmt.Fprintf(out, "    %s\n", strings.ReplaceAll(text, "\n", "\n    "))
					}
				}
			} else if verbose {
				fmt.Fprintf(out, "--- PASS: %s fuel %s\n", name, grouped(outcome.Fuel))
			}
		}
	}
	took := fmt.Sprintf("%.3fs", time.Since(start).Seconds())
	if failed > 0 {
		fmt.Fprintf(out, "FAIL\t%s\t%s\t%d of %d cases\n", path, took, failed, ran)
		return exitCode(1)
	}
	if ran == 0 {
		fmt.Fprintf(out, "ok  \t%s\t%s\t[no cases to run]\n", path, took)
		return nil
	}
	fmt.Fprintf(out, "ok  \t%s\t%s\t%d cases\n", path, took, ran)
	return nil
}
