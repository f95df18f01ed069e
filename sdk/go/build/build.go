// Package build compiles guests written in Go with the installed Go toolchain.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Config says what to compile.
type Config struct {
	// Dir holds the main package of the guest.
	Dir string
	// Output is the file that is written.
	Output string
	// Go is the go command; empty means the one in PATH.
	Go string
	// Debug keeps symbols and the stack traces they give, which makes the
	// module larger.
	Debug bool
}

// Validate tells whether the configuration makes sense.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("build: no directory")
	case c.Output == "":
		return errors.New("build: no output file")
	}
	info, err := os.Stat(c.Dir)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("build: %s is not a directory", c.Dir)
	}
	return nil
}

// Error is that the compiler found faults.
type Error struct {
	Dir string
	// Output of the go command, without a final newline.
	Output string
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("build: go build in %s: %v\n%s", e.Dir, e.Err, e.Output)
	if strings.Contains(e.Output, "go.mod") || strings.Contains(e.Output, sdkModule+"/") {
		text += hint
	}
	return text
}

const sdkModule = "weir.dev/weir"

// hint is for those whose directory is outside of any module, or in one that
// does not require the SDK's.
const hint = `

A guest is a Go module that requires ` + sdkModule + `. With Weir's source in a directory:

  go mod init example.com/my-module        (unless there is a go.mod)
  go mod edit -require=` + sdkModule + `@v0.0.0 -replace=` + sdkModule + `=/path/to/weir
  go mod tidy`

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Guest compiles a guest. The error is an [Error], or that of Validate, or that
// there is no Go toolchain.
func Guest(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Go == "" {
		c.Go = "go"
	}
	tool, err := exec.LookPath(c.Go)
	if err != nil {
		return fmt.Errorf("build: the Go toolchain is needed to compile a module, and there is no %q: install Go 1.26 or later (https://go.dev/dl): %w", c.Go, err)
	}
	output, err := filepath.Abs(c.Output)
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	args := []string{"build", "-buildmode=c-shared", "-trimpath"}
	if !c.Debug {
		args = append(args, "-ldflags=-s -w")
	}
	cmd := exec.CommandContext(ctx, tool, append(args, "-o", output, ".")...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &Error{Dir: c.Dir, Output: strings.TrimRight(out.String(), "\n"), Err: err}
	}
	return nil
}
