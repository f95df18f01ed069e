package build_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir.dev/weir/sdk/build"
)

func TestDetect(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  build.Language
	}{
		{"Go", []string{"main.go"}, build.Go},
		{"C in src", []string{"src/policy.c", "weir/weir.c"}, build.C},
		{"C", []string{"policy.c"}, build.C},
		{"Rust", []string{"Cargo.toml", "src/lib.rs"}, build.Rust},
		{"AssemblyScript", []string{"package.json", "assembly/index.ts"}, build.AssemblyScript},
		{"nothing", []string{"README.md"}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "with [brackets]")
			for _, name := range tc.files {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := build.Detect(dir)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestMissing: a tool that is not there is named, with the package that has it.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("RUSTC", "")
	tests := []struct {
		language build.Language
		file     string
		want     string
	}{
		{build.C, "policy.c", "clang is needed to compile C to WebAssembly, and is not installed: apt-get install clang lld"},
		{build.Rust, "Cargo.toml", "apt-get install cargo libstd-rust-dev-wasm32 lld"},
		{build.AssemblyScript, "package.json", "apt-get install nodejs npm"},
	}
	for _, tc := range tests {
		t.Run(string(tc.language), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tc.file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			err := build.Guest(t.Context(), build.Config{Dir: dir, Output: filepath.Join(dir, "x.wasm")})
			var missing *build.MissingError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if build.Missing(t.Context(), tc.language) == nil {
				t.Error("nothing is missing")
			}
		})
	}
}
