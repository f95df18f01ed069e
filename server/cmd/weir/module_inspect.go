package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/host"
)

func moduleInspectCommand() *cobra.Command {
	format := outputText
	limits := limitFlags{memory: host.DefaultMemoryBytes}
	command := &cobra.Command{
		Use:   "inspect DIR|FILE",
		Short: "Show what a module is: its manifest, digest, size, imports and memory",
		Long: `Show what a module is. It is checked as a server does before it loads one, and
started to describe itself; no hook is run. The module in DIR is built first.`,
		Example: "  weir module inspect quotes.wasm\n  weir module inspect quotes.wasm -o json",
		Args:    exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			wasm, err := readModule(command.Context(), args[0], command.ErrOrStderr())
			if err != nil {
				return err
			}
			description, err := describe(command.Context(), wasm, limits)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			description.File = args[0]
			return description.write(command.OutOrStdout(), format)
		},
	}
	command.Flags().IntVar(&limits.memory, "memory", limits.memory, "most bytes of memory")
	command.Flags().VarP(&format, "format", "o", "what is printed: text or json")
	return command
}

// description is what build and inspect print.
type description struct {
	File         string   `json:"file"`
	Name         string   `json:"name"`
	Version      string   `json:"version,omitempty"`
	Group        string   `json:"group,omitempty"`
	Resource     string   `json:"resource,omitempty"`
	Kind         string   `json:"kind,omitempty"`
	SDK          string   `json:"sdk,omitempty"`
	Hooks        []string `json:"hooks"`
	Capabilities []string `json:"capabilities,omitempty"`
	Digest       string   `json:"digest"`
	// Bytes of the module, and when it is compressed by gzip.
	Bytes        int      `json:"bytes"`
	GzippedBytes int      `json:"gzippedBytes"`
	Imports      []string `json:"imports"`
	// MemoryBytes once it is initialised.
	MemoryBytes int `json:"memoryBytes"`
	// Resettable is false if the server makes a new guest for each call.
	Resettable bool `json:"resettable"`
}

// describe has a module describe itself. It is interpreted, for it runs once.
func describe(ctx context.Context, wasm []byte, limits limitFlags) (*description, error) {
	runtime, err := host.NewRuntime(host.Config{Interpreter: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = runtime.Close(context.WithoutCancel(ctx)) }() // nothing is in it
	i, err := runtime.Inspect(ctx, wasm, limits.limits())
	if err != nil {
		return nil, err
	}
	small, err := gzipped(wasm)
	if err != nil {
		return nil, err
	}
	return &description{
		Name: i.Manifest.Name, Version: i.Manifest.Version,
		Group: i.Manifest.Group, Resource: i.Manifest.Resource, Kind: i.Manifest.Kind,
		SDK: i.Manifest.SDK, Hooks: i.Manifest.Hooks, Capabilities: i.Manifest.Capabilities,
		Digest: i.Digest, Bytes: len(wasm), GzippedBytes: small,
		Imports: i.Imports, MemoryBytes: i.MemoryBytes, Resettable: i.Resettable,
	}, nil
}

func (d *description) write(w io.Writer, format outputFormat) error {
	if format == outputJSON {
		return writeJSON(w, d)
	}
	t := table{w}
	t.row("file", d.File)
	t.row("module", d.Name, d.Version)
	what := d.Resource
	if d.Group != "" {
		what += "." + d.Group
	}
	if d.Kind != "" {
		what += " (" + d.Kind + ")"
	}
	if what == "" {
		what = "any resource"
	}
	t.row("for", what)
	t.row("hooks", joined(d.Hooks))
	if len(d.Capabilities) > 0 {
		t.row("wants", joined(d.Capabilities))
		t.row("to grant", host.GrantLine(d.Capabilities))
	}
	t.row("size", fmt.Sprintf("%s bytes, %s gzipped", grouped(d.Bytes), grouped(d.GzippedBytes)))
	t.row("memory", grouped(d.MemoryBytes), "bytes once initialised")
	t.row("imports", importsText(d.Imports))
	if d.SDK != "" {
		t.row("sdk", d.SDK)
	}
	if !d.Resettable {
		t.row("note", "changes its tables while it runs, so that each call needs a new guest")
	}
	t.row("digest", d.Digest)
	return nil
}

// importsText lists imports by module: weir.v1: query, read.
func importsText(imports []string) string {
	var b strings.Builder
	last := ""
	for _, name := range imports { // sorted
		dot := strings.LastIndexByte(name, '.')
		module := name[:max(dot, 0)]
		switch {
		case module == last && b.Len() > 0:
			b.WriteString(", ")
		case b.Len() > 0:
			b.WriteString("; " + module + ": ")
		default:
			b.WriteString(module + ": ")
		}
		last = module
		b.WriteString(name[dot+1:])
	}
	return b.String()
}
