package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/sdk/build"
)

func moduleBuildCommand() *cobra.Command {
	var file, entrypoint string
	var debug bool
	format := outputText
	command := &cobra.Command{
		Use:   "build DIR|FILE.rego",
		Short: "Compile a module that is written in Go, C, Rust, AssemblyScript or Rego",
		Long: `Compile the module in DIR with the tools that are in PATH, and check that a server
would accept it. Printed are its size, hooks and digest. What DIR holds tells the
language, and that what is needed:

  Go              *.go            Go 1.26 or later
  C               src/*.c, *.c    clang and lld
  Rust            Cargo.toml      cargo, and the target wasm32-unknown-unknown
  AssemblyScript  package.json    node and npm; the compiler itself is installed
                                  below DIR if it is not there

A policy in Rego, given as a file, is compiled to a module with the hook
admitValidate. That needs nothing. A few functions (sprintf, time.now_ns) and
data are not there in a module; the Policy itself can have such a text.`,
		Example: `  weir module build examples/first-module -o quotes.wasm
  weir module build policies/library/replicas/policy.rego -o replicas.wasm`,
		Args: exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if file == "" {
				dir, err := filepath.Abs(args[0])
				if err != nil {
					return err
				}
				file = strings.TrimSuffix(filepath.Base(dir), ".rego") + ".wasm"
			}
			var err error
			if isRego(args[0]) {
				err = buildRego(command.Context(), args[0], entrypoint, file)
			} else {
				err = build.Guest(command.Context(), build.Config{Dir: args[0], Output: file, Debug: debug, Log: command.ErrOrStderr()})
			}
			if err != nil {
				return err
			}
			wasm, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			description, err := describe(command.Context(), wasm, limitFlags{})
			if err != nil {
				return fmt.Errorf("%s was built, and no server would load it: %w", file, err)
			}
			description.File = file
			return description.write(command.OutOrStdout(), format)
		},
	}
	command.Flags().StringVarP(&file, "out", "o", "", "file to write (default: the name of DIR and .wasm, in the current directory)")
	command.Flags().Var(&format, "format", "what is printed: text or json")
	command.Flags().StringVar(&entrypoint, "entrypoint", "", "of a policy in Rego: the package or rule to evaluate (default: its package)")
	command.Flags().BoolVar(&debug, "debug", false, "keep symbols for stack traces; the module is larger")
	return command
}

// gzipped is how many bytes data takes compressed.
func gzipped(data []byte) (int, error) {
	var n counter
	w, err := gzip.NewWriterLevel(&n, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(data); err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return int(n), nil
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)

func joined(list []string) string { return strings.Join(list, ", ") }
