// Package build compiles guests, in whatever language of an SDK they are
// written, with the tools that are installed. What is missing is named, with
// how to get it.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	gobuild "weir.dev/weir/sdk/go/build"
)

// Language is what a guest is written in.
type Language string

// Languages.
const (
	Go             Language = "go"
	C              Language = "c"
	Rust           Language = "rust"
	AssemblyScript Language = "assemblyscript"
)

// Languages returns all there are.
func Languages() []Language { return []Language{Go, C, Rust, AssemblyScript} }

// Detect tells the language of the guest in a directory, by its files:
// Cargo.toml, package.json, C sources in it or its src, or else Go.
func Detect(dir string) (Language, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("build: %s is not a directory", dir)
	}
	for _, sign := range []struct {
		pattern  string
		language Language
	}{
		{"Cargo.toml", Rust}, {"package.json", AssemblyScript}, {"asconfig.json", AssemblyScript},
		{"src/*.c", C}, {"*.c", C}, {"*.go", Go}, {"go.mod", Go},
	} {
		found, err := filepath.Glob(filepath.Join(escape(dir), sign.pattern))
		if err != nil {
			return "", fmt.Errorf("build: %w", err)
		}
		if len(found) > 0 {
			return sign.language, nil
		}
	}
	return "", fmt.Errorf("build: no module in %s: it has neither Go files, nor C files in src, nor Cargo.toml or package.json", dir)
}

// escape keeps what is special to Glob in a directory's name from being so.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// Config says what to compile.
type Config struct {
	// Dir holds the guest.
	Dir string
	// Output is the file that is written.
	Output string
	// Debug keeps symbols, which makes the module larger.
	Debug bool
	// Log is told when something is installed; nil: nobody is.
	Log io.Writer
}

// Validate tells whether the configuration makes sense.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("build: no directory")
	case c.Output == "":
		return errors.New("build: no output file")
	}
	return nil
}

// MissingError is that a tool is not installed.
type MissingError struct {
	// Tool is what was looked for, and Why what for.
	Tool, Why string
	// Get says how to install it.
	Get string
}

// Error implements error.
func (e *MissingError) Error() string {
	return fmt.Sprintf("build: %s is needed %s, and is not installed: %s", e.Tool, e.Why, e.Get)
}

// Error is that a compiler found faults.
type Error struct {
	Dir string
	// Command that failed, and its output without a final newline.
	Command, Output string
	Err             error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("build: %s in %s: %v\n%s", e.Command, e.Dir, e.Err, e.Output)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Guest compiles a guest. The error is an [Error], a [MissingError], that of
// package sdk/go/build for Go, or that of Validate.
func Guest(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	language, err := Detect(c.Dir)
	if err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Output, err = filepath.Abs(c.Output); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	switch language {
	case C:
		return guestC(ctx, c)
	case Rust:
		return guestRust(ctx, c)
	case AssemblyScript:
		return guestAssemblyScript(ctx, c)
	}
	return gobuild.Guest(ctx, gobuild.Config{Dir: c.Dir, Output: c.Output, Debug: c.Debug})
}

// Missing tells what the tools for a language lack here; nil if they are all
// there. What npm installs on demand does not count.
func Missing(ctx context.Context, language Language) *MissingError {
	var err error
	switch language {
	case C:
		_, err = findClang()
	case Rust:
		_, err = findRust(ctx)
	case AssemblyScript:
		_, err = findNode()
	}
	var missing *MissingError
	if errors.As(err, &missing) {
		return missing
	}
	return nil
}

// run runs a command and returns its standard output.
func run(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		text := strings.TrimRight(messages.String(), "\n")
		if text == "" {
			text = strings.TrimRight(out.String(), "\n")
		}
		return out.Bytes(), &Error{Dir: dir, Command: filepath.Base(name), Output: text, Err: err}
	}
	return out.Bytes(), nil
}
