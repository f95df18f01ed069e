package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/sdk/build"
	"weir.dev/weir/server"
	"weir.dev/weir/server/offline"
)

// newPolicyCommand is `weir policy`: what its author and operator do with a policy before it is in force. Each
// subcommand is a file policy_<name>.go, and a line here.
func newPolicyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "policy",
		Short: "Test, lint, measure and replay admission policies before they are in force",
		Long: `Test, lint, measure and replay admission policies before they are in force:
ValidatingAdmissionPolicy, MutatingAdmissionPolicy and Policy, with their bindings.
They are judged by the code of the server, without one running.`,
		Args: onlySubcommands,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(policyTestCommand(), policyLintCommand(), policyBenchCommand(), policyReplayCommand(), policyImpactCommand())
	return command
}

// offlineFlags say how policies are judged.
type offlineFlags struct {
	cacheDir string
	logs     bool
}

func (f *offlineFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.cacheDir, "cache-dir", defaultCacheDir(), "directory of compiled modules; empty: compile each time")
	command.Flags().BoolVar(&f.logs, "logs", false, "show what modules log, on standard error")
}

// open makes a workbench. metered has costs counted exactly.
func (f *offlineFlags) open(command *cobra.Command, metered bool) (*server.Offline, error) {
	cfg := server.OfflineConfig{CacheDir: f.cacheDir, Metered: metered}
	if f.logs {
		cfg.Logger = slog.New(slog.NewTextHandler(command.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return server.NewOffline(cfg)
}

// caseFlags say which cases are run, and on what.
type caseFlags struct {
	offlineFlags
	run     string
	engines []string
}

func (f *caseFlags) add(command *cobra.Command) {
	f.offlineFlags.add(command)
	command.Flags().StringVar(&f.run, "run", "", "only cases whose DIR/FILE/CASE matches this regular expression")
	command.Flags().StringSliceVar(&f.engines, "engine", nil, "only on these engines: cel, rego, wasm (default: all that a policy is written for)")
}

// chosen says which cases are run, in the flags that were given.
func (f *caseFlags) chosen() string {
	var given []string
	if f.run != "" {
		given = append(given, fmt.Sprintf("--run %q", f.run))
	}
	if len(f.engines) > 0 {
		given = append(given, "--engine "+strings.Join(f.engines, ","))
	}
	if given == nil {
		return "are there"
	}
	return "match " + strings.Join(given, " and ")
}

// check refuses engines that do not exist.
func (f *caseFlags) check() error {
	for _, e := range f.engines {
		switch e {
		case offline.EngineCEL, offline.EngineRego, offline.EngineWasm:
		default:
			return fmt.Errorf("--engine %q: there are cel, rego and wasm", e)
		}
	}
	return nil
}

// caseDir is a directory with cases: one of a file system.
type caseDir struct {
	// root is what the user named, dir the directory below it.
	root, dir string
}

// name is the path of the directory, as the user would write it.
func (d caseDir) name() string { return filepath.Join(d.root, filepath.FromSlash(d.dir)) }

// file is the path of a file below it.
func (d caseDir) file(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// caseDirs finds the directories with cases. One without any is an error.
func caseDirs(roots []string) ([]caseDir, error) {
	var dirs []caseDir
	for _, root := range roots {
		info, err := os.Stat(root)
		switch {
		case err != nil:
			return nil, err
		case !info.IsDir():
			return nil, fmt.Errorf("%s is not a directory", root)
		}
		found, err := offline.CaseDirs(os.DirFS(root), ".")
		switch {
		case err != nil:
			return nil, err
		case len(found) == 0:
			return nil, fmt.Errorf("%s: no cases: neither it nor a directory below it has one named cases; `weir policy test --help` shows what is in it", root)
		}
		for _, dir := range found {
			dirs = append(dirs, caseDir{root, dir})
		}
	}
	return dirs, nil
}

// moduleBeside returns the module of a directory: policy.wasm, or what policy.c is compiled to. Nil: there is neither.
func moduleBeside(root string) func(ctx context.Context, dir string) ([]byte, error) {
	return func(ctx context.Context, dir string) ([]byte, error) {
		at := filepath.Join(root, filepath.FromSlash(dir))
		wasm, err := os.ReadFile(filepath.Join(at, "policy.wasm"))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return wasm, err
		}
		if _, err := os.Stat(filepath.Join(at, "policy.c")); err != nil {
			return nil, nil //nolint:nilerr // there is no module
		}
		if missing := build.Missing(ctx, build.C); missing != nil {
			return nil, fmt.Errorf("policy.c: %w; --engine cel,rego leaves it out", missing)
		}
		file, err := os.CreateTemp("", "*.wasm")
		if err != nil {
			return nil, err
		}
		_ = file.Close()                              // it is for its name
		defer func() { _ = os.Remove(file.Name()) }() // what is left is in a directory for such
		if err := build.Guest(ctx, build.Config{Dir: at, Output: file.Name()}); err != nil {
			return nil, fmt.Errorf("policy.c: %w", err)
		}
		return os.ReadFile(file.Name())
	}
}
