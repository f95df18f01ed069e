package build

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	rustTarget = "wasm32-unknown-unknown"
	// rustFlags ask for a stack that makes a small memory, which is put back
	// at once; the usual one has 1 MiB. RUSTFLAGS overrule them.
	rustFlags = "-C link-arg=-zstack-size=65536"
)

// rust is a toolchain.
type rust struct{ cargo, rustc string }

// findRust finds a Rust toolchain in PATH that has the target. There may be
// several, as a rustup's before that of the system.
func findRust(ctx context.Context) (*rust, error) {
	const get = "apt-get install cargo libstd-rust-dev-wasm32 lld, or with rustup: rustup target add " + rustTarget
	compilers := all("rustc")
	if own := os.Getenv("RUSTC"); own != "" {
		compilers = append([]string{own}, compilers...)
	}
	if len(compilers) == 0 {
		return nil, &MissingError{Tool: "rustc", Why: "to compile Rust", Get: get}
	}
	for _, rustc := range compilers {
		out, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", rustTarget).Output()
		if err != nil {
			continue
		}
		if found, _ := filepath.Glob(filepath.Join(escape(strings.TrimSpace(string(out))), "libcore-*.rlib")); len(found) == 0 {
			continue
		}
		// Its own cargo, or any.
		for _, cargo := range append([]string{filepath.Join(filepath.Dir(rustc), "cargo")}, all("cargo")...) {
			if _, err := exec.LookPath(cargo); err == nil {
				return &rust{cargo: cargo, rustc: rustc}, nil
			}
		}
		return nil, &MissingError{Tool: "cargo", Why: "to build a Rust crate", Get: get}
	}
	return nil, &MissingError{Tool: "Rust's standard library for " + rustTarget, Why: "to compile Rust to WebAssembly", Get: get}
}

// all finds every command of a name in PATH.
func all(name string) []string {
	var found []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			found = append(found, path)
		}
	}
	return found
}

// remaps are flags by which the messages of panics do not tell where the crates
// are: the same source makes the same module in every directory.
func (t *rust) remaps(ctx context.Context, dir string) (string, error) {
	out, err := run(ctx, dir, []string{"RUSTC=" + t.rustc}, t.cargo, "metadata", "--offline", "--format-version", "1", "--filter-platform", rustTarget)
	if err != nil {
		return "", err
	}
	var metadata struct {
		Packages []struct {
			Name     string `json:"name"`
			Manifest string `json:"manifest_path"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(out, &metadata); err != nil {
		return "", fmt.Errorf("build: cargo metadata: %w", err)
	}
	var flags strings.Builder
	for _, p := range metadata.Packages {
		if from := filepath.Dir(p.Manifest); !strings.ContainsAny(from, " \t=") { // cargo splits flags at spaces
			fmt.Fprintf(&flags, " --remap-path-prefix=%s=/%s", from, p.Name)
		}
	}
	return flags.String(), nil
}

// guestRust builds the crate of the directory, a cdylib.
func guestRust(ctx context.Context, c Config) error {
	tools, err := findRust(ctx)
	if err != nil {
		return err
	}
	args := []string{"build", "--offline", "--lib", "--target", rustTarget, "--message-format", "json-render-diagnostics"}
	if !c.Debug {
		args = append(args, "--release")
	}
	remaps, err := tools.remaps(ctx, c.Dir)
	if err != nil {
		return err
	}
	env := []string{"RUSTC=" + tools.rustc, "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=" + rustFlags + remaps}
	out, err := run(ctx, c.Dir, env, tools.cargo, args...)
	if err != nil {
		return err
	}
	file := ""
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var message struct {
			Reason    string   `json:"reason"`
			Filenames []string `json:"filenames"`
		}
		if json.Unmarshal(lines.Bytes(), &message) != nil || message.Reason != "compiler-artifact" {
			continue
		}
		for _, name := range message.Filenames { // the last is that of the crate itself
			if strings.HasSuffix(name, ".wasm") {
				file = name
			}
		}
	}
	if file == "" {
		return fmt.Errorf(`build: cargo made no module in %s: Cargo.toml needs [lib] crate-type = ["cdylib", "rlib"]`, c.Dir)
	}
	data, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	return copyTo(c.Output, data)
}
