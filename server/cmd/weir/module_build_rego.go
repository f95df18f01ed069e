package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weir.dev/weir/policies/rego"
)

// isRego tells whether a module is to be made of a policy in Rego.
func isRego(path string) bool { return filepath.Ext(path) == ".rego" }

// buildRego compiles a policy in Rego to the file of a module.
func buildRego(ctx context.Context, path, entrypoint, output string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	engine, err := rego.New(rego.Config{})
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(path), ".rego")
	source := &rego.Source{Path: path, Modules: []rego.Module{{Text: string(text)}}, Entrypoint: entrypoint}
	wasm, missing, err := engine.CompileWasm(ctx, name, source)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s uses %s, which a module does not have: write it without, or put the text itself into a Policy", path, joined(missing))
	}
	return os.WriteFile(output, wasm, 0o600)
}
