package build_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir.dev/weir/sdk/go/build"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestGuest(t *testing.T) {
	tests := []struct {
		name, source, wantErr string
	}{
		{name: "compiles", source: "package main\n\n//go:wasmexport f\nfunc f() {}\n\nfunc main() {}\n"},
		{name: "a fault has its line", source: "package main\n\nfunc main() { x }\n", wantErr: "main.go:3:15: undefined: x"},
		{name: "no main package", source: "package other\n", wantErr: "main package"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "go.mod", "module guest\n\ngo 1.24\n")
			write(t, dir, "main.go", tc.source)
			out := filepath.Join(t.TempDir(), "guest.wasm")
			err := build.Guest(t.Context(), build.Config{Dir: dir, Output: out})
			if tc.wantErr != "" {
				var e *build.Error
				if !errors.As(err, &e) || !strings.Contains(e.Output, tc.wantErr) {
					t.Fatalf("got %v, want an Error with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wasm, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
				t.Errorf("output begins with %q", wasm[:8])
			}
		})
	}
}

// TestHint: who is told that there is no module is told how to make one.
func TestHint(t *testing.T) {
	const source = "package main\n\nimport _ \"weir.dev/weir/sdk/go\"\n\nfunc main() {}\n"
	tests := []struct {
		name, mod, source string
		want              bool
	}{
		{"no go.mod", "", source, true},
		{"not required", "module guest\n\ngo 1.24\n", source, true},
		{"a fault of its own", "module guest\n\ngo 1.24\n", "package main\n\nfunc main() { x }\n", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.mod != "" {
				write(t, dir, "go.mod", tc.mod)
			}
			write(t, dir, "main.go", tc.source)
			err := build.Guest(t.Context(), build.Config{Dir: dir, Output: filepath.Join(dir, "guest.wasm")})
			if err == nil || strings.Contains(err.Error(), "go mod edit -require=weir.dev/weir@v0.0.0 -replace=weir.dev/weir=") != tc.want {
				t.Errorf("got %v, want a hint: %v", err, tc.want)
			}
		})
	}
}

func TestGuestWithout(t *testing.T) {
	tests := []struct {
		name    string
		config  build.Config
		wantErr string
	}{
		{"no toolchain", build.Config{Dir: t.TempDir(), Output: "x.wasm", Go: "no-such-go"}, "the Go toolchain is needed"},
		{"no directory", build.Config{Output: "x.wasm"}, "no directory"},
		{"no output", build.Config{Dir: t.TempDir()}, "no output file"},
		{"a directory that does not exist", build.Config{Dir: filepath.Join(t.TempDir(), "gone"), Output: "x.wasm"}, "gone"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := build.Guest(t.Context(), tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
		})
	}
}
