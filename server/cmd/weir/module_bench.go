package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/sdk/cases"
)

// benchFlags are the flags of weir module bench: those of a suite, or of one
// call.
type benchFlags struct {
	suite    suiteFlags
	call     runFlags
	duration time.Duration
}

func moduleBenchCommand() *cobra.Command {
	f := benchFlags{call: runFlags{format: outputText, user: "kubernetes-admin"}}
	command := &cobra.Command{
		Use:   "bench DIR|FILE [--hook HOOK --object OBJECT]",
		Short: "Measure the calls of a module",
		Long: `Measure what the cases of a module cost, or with --hook and --object one call: calls
a second of one client, the median and the 99th percentile of their times, the fuel
of a call, which is the same each time, and how many pages of the module's memory
were put back after it (- if the system does that unseen).

If DIR is a directory, the module in it is built first.`,
		Example: "  weir module bench .\n  weir module bench quotes.wasm --hook validateCreate --object good.yaml --time 5s",
		Args:    exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return benchModule(command, args[0], &f)
		},
	}
	f.suite.add(command)
	f.call.addCall(command)
	command.Flags().DurationVar(&f.duration, "time", time.Second, "how long each is measured")
	command.Flags().VarP(&f.call.format, "format", "o", "what is printed: text or json")
	return command
}

// measurement is what bench prints.
type measurement struct {
	Name string `json:"name"`
	// Calls that were measured.
	Calls          int     `json:"calls"`
	CallsPerSecond float64 `json:"callsPerSecond"`
	MedianMicros   float64 `json:"medianMicroseconds"`
	P99Micros      float64 `json:"p99Microseconds"`
	Fuel           uint64  `json:"fuel"`
	// Pages of the system that were put back; -1 is unknown.
	Pages int `json:"pages"`
	// Failure of a call, if it fails.
	Failure string `json:"failure,omitempty"`
}

func benchModule(command *cobra.Command, path string, f *benchFlags) error {
	ctx := command.Context()
	if f.duration <= 0 {
		return errors.New("--time: give a duration above 0")
	}
	wasm, suites, err := f.inputs(command, path)
	if err != nil {
		return err
	}
	r, done, err := f.suite.runner(ctx, path, wasm, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer done()
	var all []measurement
	for _, suite := range suites {
		for _, c := range suite.Cases {
			if c.Call.Op == abi.OpConfigure {
				continue // it is not called per request
			}
			module, err := r.Module(ctx, c)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", suite.Name, c.Name, err)
			}
			m, err := measure(ctx, module, &c.Call, f.duration)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", suite.Name, c.Name, err)
			}
			m.Name = fmt.Sprintf("%s %s/%s", c.Call.Op, suite.Name, c.Name)
			if suite.Name == "" {
				m.Name = c.Name
			}
			all = append(all, m)
		}
	}
	out := command.OutOrStdout()
	if f.call.format == outputJSON {
		return writeJSON(out, all)
	}
	width := len("call")
	for _, m := range all {
		width = max(width, len(m.Name))
	}
	fmt.Fprintf(out, "%-*s  %9s  %10s  %10s  %11s  %5s\n", width, "call", "calls/s", "median", "p99", "fuel", "pages")
	for _, m := range all {
		pages := "-"
		if m.Pages >= 0 {
			pages = grouped(m.Pages)
		}
		fmt.Fprintf(out, "%-*s  %9s  %7.1f µs  %7.1f µs  %11s  %5s", width, m.Name, grouped(int(m.CallsPerSecond)), m.MedianMicros, m.P99Micros, grouped(m.Fuel), pages)
		if m.Failure != "" {
			fmt.Fprintf(out, "  %s", m.Failure)
		}
		fmt.Fprintln(out)
	}
	return nil
}

// inputs are the module, and the cases or the call that the flags say.
func (f *benchFlags) inputs(command *cobra.Command, path string) ([]byte, []*cases.Suite, error) {
	if f.call.hook == "" {
		wasm, suites, err := f.suite.load(command, path)
		if errors.Is(err, errNoCases) {
			return nil, nil, fmt.Errorf("%w; without cases, give --hook and --object", err)
		}
		return wasm, suites, err
	}
	op, err := parseHook(f.call.hook)
	if err != nil {
		return nil, nil, err
	}
	call, settings, err := f.call.call(command.InOrStdin(), op)
	if err != nil {
		return nil, nil, err
	}
	wasm, err := readModule(command.Context(), path, command.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	return wasm, []*cases.Suite{{Cases: []*cases.Case{{Name: op.String(), Settings: settings, Call: *call}}}}, nil
}

// measure calls a hook for a time. A call that fails by the guest's fault is
// measured too; the error is that it cannot be called at all.
func measure(ctx context.Context, module *host.Module, call *host.Call, duration time.Duration) (m measurement, err error) {
	const warm = 100 // calls, or a tenth of the time
	var times []time.Duration
	began := time.Now()
	for i := 0; ; i++ {
		if i == warm || len(times) == 0 && time.Since(began) > duration/10 {
			times, began = make([]time.Duration, 0, 1<<16), time.Now()
		}
		start := time.Now()
		res, err := module.Call(ctx, call)
		took := time.Since(start)
		var e *host.Error
		switch {
		case err == nil:
			m.Fuel, m.Pages, m.Failure = res.Fuel, pages(res.RestoredBytes), ""
		case errors.As(err, &e) && e.Class != host.ClassABIMismatch && ctx.Err() == nil:
			m.Fuel, m.Pages, m.Failure = e.Fuel, -1, e.Class.String()
		default:
			return m, err
		}
		if times == nil {
			continue
		}
		times = append(times, took)
		if time.Since(began) >= duration {
			break
		}
	}
	m.Calls = len(times)
	m.CallsPerSecond = float64(m.Calls) / time.Since(began).Seconds()
	slices.Sort(times)
	m.MedianMicros = float64(times[len(times)/2].Nanoseconds()) / 1000
	m.P99Micros = float64(times[len(times)*99/100].Nanoseconds()) / 1000
	return m, nil
}

func pages(bytes int) int {
	if bytes < 0 {
		return -1
	}
	return bytes / os.Getpagesize()
}
