package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir.dev/weir/server"
	"weir.dev/weir/server/offline"
)

// policyBenchFlags are the flags of weir policy bench.
type policyBenchFlags struct {
	caseFlags
	duration time.Duration
	format   outputFormat
}

func policyBenchCommand() *cobra.Command {
	f := policyBenchFlags{format: outputText}
	command := &cobra.Command{
		Use:   "bench DIR|FILE...",
		Short: "Measure what the cases of policies cost",
		Long: `Measure what the cases of policies cost, on each engine that a policy is written for:
judgements a second of one client, the median and the 99th percentile of their times,
allocations, and the cost. DIR is as for ` + "`weir policy test`" + `; FILE is one of the files in
it, or of its cases.

A judgement is all that admission does for a request that has been decoded: matching,
params, conditions, the expressions, rules or module, and the answer. The cost is exact and
the same each time: of CEL the cost that Kubernetes counts, which is stopped at 1,000,000
for an expression and 10,000,000 for a policy; of Rego steps of evaluation; of a module
instructions. A server counts the cost of CEL only where it cannot be known beforehand that
it is small, and so is what is timed here.

Exit code: 0, or 2 when something could not be measured.`,
		Example: `  weir policy bench policies/library/replicas
  weir policy bench policies/library/replicas/cases/replicas.yaml --engine rego --time 5s
  weir policy bench policies/library --run 'labels/none' -o json`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("a directory or file is missing: %s", command.UseLine())
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return benchPolicies(command, args, &f) },
	}
	f.add(command)
	command.Flags().DurationVar(&f.duration, "time", 500*time.Millisecond, "how long each case is measured")
	command.Flags().VarP(&f.format, "format", "o", "what is printed: text or json")
	return command
}

// policyMeasurement is what bench prints of one case.
type policyMeasurement struct {
	Dir    string `json:"dir"`
	Case   string `json:"case"`
	Engine string `json:"engine"`
	// Judgements that were measured.
	Judgements          int     `json:"judgements"`
	JudgementsPerSecond float64 `json:"judgementsPerSecond"`
	MedianMicros        float64 `json:"medianMicroseconds"`
	P99Micros           float64 `json:"p99Microseconds"`
	// Allocations and bytes of memory of one judgement.
	Allocations float64 `json:"allocations"`
	Bytes       float64 `json:"bytes"`
	// Cost of one judgement, in the unit of the engine.
	Cost uint64 `json:"cost"`
	Unit string `json:"unit"`
	// Answer is allowed or denied.
	Answer string `json:"answer"`
}

// benchTarget is a directory, or one file of its cases.
type benchTarget struct {
	dirs  []caseDir
	suite string // "": all
}

// target is what a directory or file stands for.
func target(name string) (benchTarget, error) {
	info, err := os.Stat(name)
	if err != nil {
		return benchTarget{}, err
	}
	if info.IsDir() {
		dirs, err := caseDirs([]string{name})
		return benchTarget{dirs: dirs}, err
	}
	dir := filepath.Dir(name)
	if filepath.Base(dir) != "cases" {
		dirs, err := caseDirs([]string{dir})
		return benchTarget{dirs: dirs}, err
	}
	return benchTarget{dirs: []caseDir{{root: filepath.Dir(dir), dir: "."}}, suite: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))}, nil
}

// benchPolicies measures cases and prints what they cost.
func benchPolicies(command *cobra.Command, names []string, f *policyBenchFlags) error {
	choose, err := regexp.Compile(f.run)
	switch {
	case err != nil:
		return fmt.Errorf("--run: %w", err)
	case f.duration <= 0:
		return errors.New("--time: give a duration above 0")
	}
	if err := f.check(); err != nil {
		return err
	}
	var targets []benchTarget
	for _, name := range names {
		t, err := target(name)
		if err != nil {
			return err
		}
		targets = append(targets, t)
	}
	timed, err := f.open(command, false)
	if err != nil {
		return err
	}
	defer func() { _ = timed.Close() }() // the process ends
	metered, err := f.open(command, true)
	if err != nil {
		return err
	}
	defer func() { _ = metered.Close() }() // the process ends
	var all []policyMeasurement
	for _, t := range targets {
		for _, dir := range t.dirs {
			found, err := benchDir(command.Context(), timed, metered, dir, func(c *offline.Case) bool {
				name := dir.name() + "/" + c.Name
				return choose.MatchString(name) && (t.suite == "" || strings.HasPrefix(strings.TrimPrefix(c.Name, c.Engine+"/"), t.suite+"/"))
			}, f)
			if err != nil {
				return fmt.Errorf("%s: %w", dir.name(), err)
			}
			all = append(all, found...)
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("no case was measured: none %s", f.chosen())
	}
	if f.format == outputJSON {
		return writeJSON(command.OutOrStdout(), all)
	}
	printMeasurements(command.OutOrStdout(), all)
	return nil
}

// benchDir measures the cases of a directory. Those of a strategy are not judgements.
func benchDir(ctx context.Context, timed, metered *server.Offline, dir caseDir, chosen func(*offline.Case) bool, f *policyBenchFlags) ([]policyMeasurement, error) {
	options := offline.CaseOptions{Wasm: moduleBeside(dir.root), Engines: f.engines}
	cases, err := timed.LoadCases(ctx, os.DirFS(dir.root), dir.dir, options)
	if err != nil {
		return nil, err
	}
	defer cases.Close()
	counted, err := metered.LoadCases(ctx, os.DirFS(dir.root), dir.dir, options)
	if err != nil {
		return nil, err
	}
	defer counted.Close()
	var all []policyMeasurement
	for i, c := range cases.Cases {
		if c.Outcome == nil || !chosen(c) {
			continue
		}
		out, err := counted.Cases[i].Outcome(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		m := policyMeasurement{Dir: dir.name(), Case: c.Name, Engine: c.Engine, Cost: out.Cost.Used + out.Cost.Proven, Unit: costUnit(c.Engine), Answer: "allowed"}
		if out.Status != nil {
			m.Answer = "denied"
		}
		if err := m.measure(ctx, c, f.duration); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// measure judges a case for a time.
func (m *policyMeasurement) measure(ctx context.Context, c *offline.Case, duration time.Duration) error {
	const warm = 100 // judgements, or a tenth of the time
	for i, began := 0, time.Now(); i < warm && time.Since(began) < duration/10; i++ {
		if _, err := c.Outcome(ctx); err != nil {
			return err
		}
	}
	times := make([]time.Duration, 0, 1<<18)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for len(times) == 0 || time.Since(began) < duration && len(times) < cap(times) {
		start := time.Now()
		if _, err := c.Outcome(ctx); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	n := float64(len(times))
	m.Judgements, m.JudgementsPerSecond = len(times), n/took.Seconds()
	m.Allocations, m.Bytes = float64(after.Mallocs-before.Mallocs)/n, float64(after.TotalAlloc-before.TotalAlloc)/n
	slices.Sort(times)
	m.MedianMicros = float64(times[len(times)/2].Nanoseconds()) / 1000
	m.P99Micros = float64(times[len(times)*99/100].Nanoseconds()) / 1000
	return nil
}

func printMeasurements(out io.Writer, all []policyMeasurement) {
	width, dir := len("case"), ""
	for i := range all {
		width = max(width, len(all[i].Case))
	}
	for i := range all {
		m := &all[i]
		if m.Dir != dir {
			dir = m.Dir
			fmt.Fprintf(out, "%s\n  %-*s  %12s  %10s  %10s  %8s  %9s  %s\n", dir, width, "case", "judgements/s", "median", "p99", "allocs", "bytes", "cost")
		}
		fmt.Fprintf(out, "  %-*s  %12s  %7.1f µs  %7.1f µs  %8s  %9s  %s %s\n", width, m.Case, grouped(int(m.JudgementsPerSecond)), m.MedianMicros, m.P99Micros,
			grouped(int(m.Allocations+0.5)), grouped(int(m.Bytes+0.5)), grouped(m.Cost), m.Unit)
	}
}
