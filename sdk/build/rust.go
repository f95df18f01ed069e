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
	// at once; the usual one has 1 MiB. The cfg parts what rustWrapper had a hand in
	// from what cargo has kept without it. RUSTFLAGS overrule them.
	rustFlags = "-C link-arg=-zstack-size=65536 --cfg weir_build"
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

// A crate is a package that is built.
type crate struct {
	name, dir string
	// local is that it is a directory of the author's, not of a registry.
	local bool
}

// crates are the package of a directory and those that it depends on.
func (t *rust) crates(ctx context.Context, dir string) ([]crate, error) {
	out, err := run(ctx, dir, []string{"RUSTC=" + t.rustc}, t.cargo, "metadata", "--offline", "--format-version", "1", "--filter-platform", rustTarget)
	if err != nil {
		return nil, err
	}
	var metadata struct {
		Packages []struct {
			Name     string  `json:"name"`
			Manifest string  `json:"manifest_path"`
			Source   *string `json:"source"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(out, &metadata); err != nil {
		return nil, fmt.Errorf("build: cargo metadata: %w", err)
	}
	var all []crate
	for _, p := range metadata.Packages {
		all = append(all, crate{name: p.Name, dir: filepath.Dir(p.Manifest), local: p.Source == nil})
	}
	return all, nil
}

// remaps are flags by which the messages of panics do not tell where the crates
// are, for want of a wrapper.
func remaps(crates []crate) string {
	var flags strings.Builder
	for _, c := range crates {
		if !strings.ContainsAny(c.dir, " \t=") { // cargo splits flags at spaces
			fmt.Fprintf(&flags, " --remap-path-prefix=%s=/%s", c.dir, c.name)
		}
	}
	return flags.String()
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
	crates, err := tools.crates(ctx, c.Dir)
	if err != nil {
		return err
	}
	wrapper, remove, err := rustWrapper(crates)
	if err != nil {
		return err
	}
	defer remove()
	env := []string{"RUSTC=" + tools.rustc, "RUSTC_WRAPPER=" + wrapper}
	flags := rustFlags
	if wrapper == "" {
		env, flags = env[:1], flags+remaps(crates)
	}
	env = append(env, "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="+flags)
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
