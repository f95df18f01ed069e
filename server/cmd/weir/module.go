package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/host"
	"weir.dev/weir/sdk/build"
)

// moduleCommand builds, inspects and runs modules, without a server.
func moduleCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "module",
		Short: "Write, build, test, run and publish WebAssembly modules, without a server",
		Args:  onlySubcommands,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(moduleInitCommand(), moduleBuildCommand(), moduleInspectCommand(),
		moduleRunCommand(), moduleTestCommand(), moduleBenchCommand(),
		modulePushCommand(), modulePullCommand(), moduleVerifyCommand())
	return command
}

// outputFormat is the value of -o.
type outputFormat string

const (
	outputText outputFormat = "text"
	outputJSON outputFormat = "json"
)

// String implements pflag.Value.
func (f *outputFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *outputFormat) Type() string { return "format" }

// Set implements pflag.Value.
func (f *outputFormat) Set(s string) error {
	switch outputFormat(s) {
	case outputText, outputJSON:
		*f = outputFormat(s)
		return nil
	}
	return errors.New("give text or json")
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// readModule reads a module, or builds one if path is a directory.
// Log is told what is installed for that.
func readModule(ctx context.Context, path string, log io.Writer) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		dir, err := os.MkdirTemp("", "weir-module-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }() // what is left is the system's to clear
		file := filepath.Join(dir, "module.wasm")
		if err := build.Guest(ctx, build.Config{Dir: path, Output: file, Log: log}); err != nil {
			return nil, err
		}
		path = file
	}
	return os.ReadFile(path)
}

// limitFlags are the limits that a command takes.
type limitFlags struct {
	fuel   uint64
	memory int
}

// limits of a module. Less fuel than usual is for calls only, since loading
// needs some too.
func (l *limitFlags) limits() host.Limits {
	return host.Limits{Fuel: max(l.fuel, host.DefaultFuel), MemoryBytes: l.memory}
}

// grouped spells a number with commas.
func grouped[N int | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// table writes two columns.
type table struct{ w io.Writer }

func (t table) row(name string, values ...string) {
	value := strings.TrimSpace(strings.Join(values, " "))
	if value == "" {
		value = "-"
	}
	fmt.Fprintf(t.w, "%-9s %s\n", name, value)
}
