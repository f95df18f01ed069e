package build_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	weir "weir.dev/weir"
	"weir.dev/weir/sdk/build"
)

// TestRustIsReproducible: a crate with its SDK inside, as `weir module init` makes
// it, becomes the same module wherever it is.
func TestRustIsReproducible(t *testing.T) {
	if missing := build.Missing(t.Context(), build.Rust); missing != nil {
		t.Skip(missing)
	}
	var modules [][]byte
	for _, name := range []string{"here", "some/where/else"} {
		dir := filepath.Join(t.TempDir(), name)
		sdk, err := fs.Sub(weir.Sources(), "sdk/rust")
		if err != nil {
			t.Fatal(err)
		}
		write := func(file, text string) {
			file = filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.CopyFS(filepath.Join(dir, "guest/weir"), sdk); err != nil {
			t.Fatal(err)
		}
		write("guest/Cargo.toml", `[package]
name = "guest"
version = "1.0.0"
edition = "2021"

[lib]
crate-type = ["cdylib", "rlib"]

[dependencies]
weir = { path = "weir" }

[profile.release]
opt-level = "s"
lto = true
codegen-units = 1
panic = "abort"
strip = true
`)
		write("guest/src/lib.rs", `
use weir::{Context, FieldError, View};

#[derive(Default)]
struct Guest;

impl weir::ValidateCreate for Guest {
    fn validate_create(&self, _: &Context, object: &View) -> Vec<FieldError> {
        let name = object.text("metadata.name").unwrap();
        if name.as_bytes()[3] == b'x' {
            return vec![FieldError::required("metadata.name", "another")];
        }
        Vec::new()
    }
}

weir::module! {
    strategy: Guest,
    hooks: [ValidateCreate],
    name: "guest", version: "1.0.0",
}
`)
		file := filepath.Join(dir, "guest.wasm")
		if err := build.Guest(t.Context(), build.Config{Dir: filepath.Join(dir, "guest"), Output: file, Log: t.Output()}); err != nil {
			t.Fatal(err)
		}
		module, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(module, []byte(strings.TrimSuffix(dir, name))) {
			t.Errorf("the module of %s tells where it was built", name)
		}
		modules = append(modules, module)
	}
	if !bytes.Equal(modules[0], modules[1]) {
		t.Errorf("two modules, of %d and %d bytes", len(modules[0]), len(modules[1]))
	}
}
