package build_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	weir "weir.dev/weir"
	"weir.dev/weir/host"
	"weir.dev/weir/sdk/build"
)

const (
	rustManifest = `[package]
name = "guest"
version = "1.0.0"
edition = "2021"

[lib]
crate-type = ["cdylib", "rlib"]

[dependencies]
weir = { path = "%s" }

[profile.release]
opt-level = "s"
lto = true
codegen-units = 1
panic = "abort"
strip = true
`
	rustSource = `
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
`
)

// TestRustIsReproducible: a crate becomes the same module wherever it is, with its
// SDK inside, as `weir module init` makes it, or where several share it.
func TestRustIsReproducible(t *testing.T) {
	if missing := build.Missing(t.Context(), build.Rust); missing != nil {
		t.Skip(missing)
	}
	tests := []struct {
		name, guest, sdk string
		path             string // of the SDK from the guest
	}{
		{"with its SDK inside", "guest", "guest/weir", "weir"},
		{"with its SDK beside it", "policies/guest", "sdk/rust", "../../sdk/rust"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			here := rustGuest(t, filepath.Join(t.TempDir(), "here"), tc.guest, tc.sdk, tc.path)
			elsewhere := rustGuest(t, filepath.Join(t.TempDir(), "some", "where it's", "else"), tc.guest, tc.sdk, tc.path)
			if host.Digest(here) != host.Digest(elsewhere) {
				t.Errorf("two modules, of %d and %d bytes", len(here), len(elsewhere))
			}
		})
	}
}

// rustGuest builds a guest below a directory.
func rustGuest(t *testing.T, dir, guest, sdk, path string) []byte {
	t.Helper()
	write := func(file, text string) {
		file = filepath.Join(dir, guest, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source, err := fs.Sub(weir.Sources(), "sdk/rust")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, sdk), source); err != nil {
		t.Fatal(err)
	}
	write("Cargo.toml", fmt.Sprintf(rustManifest, path))
	write("src/lib.rs", rustSource)
	file := filepath.Join(dir, "guest.wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: filepath.Join(dir, guest), Output: file, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(module, []byte("TestRustIsReproducible")) {
		t.Errorf("the module of %s tells where it was built", dir)
	}
	return module
}
