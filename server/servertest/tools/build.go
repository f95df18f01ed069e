// Package tools builds what a server is tried with from its modules, and finds ports for it.
package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// UnreachableError says that modules of a tool are neither in the module cache nor to be had from GOPROXY.
type UnreachableError struct {
	// Tool that was to be built.
	Tool string
	// Output of go.
	Output string
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s is not built: its modules are not in the module cache and GOPROXY does not give them; connect once, or put %s on PATH\n%s",
		e.Tool, e.Tool, e.Output)
}

// tool is a module with one command.
type tool struct {
	name, version string
	// files are below module-<name>. Their names end in .txt because a directory with a go.mod of its own
	// cannot be embedded.
	files embed.FS
	// flags of the linker.
	flags string
}

// build returns the path of a tool, which it builds when the user's cache does not have it.
func build(ctx context.Context, t tool) (string, error) {
	files := map[string][]byte{}
	sum := sha256.New()
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		data, err := t.files.ReadFile("module-" + t.name + "/" + name + ".txt")
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.name, err)
		}
		files[name] = data
		sum.Write(data)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.name, err)
	}
	dir := filepath.Join(cache, "weir", "tools", t.name+"-"+t.version+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	binary := filepath.Join(dir, t.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%s: %w", t.name, err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.name, err)
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if out, err := goCommand(ctx, dir, "list", "-deps", "."); err != nil {
		return "", &UnreachableError{Tool: t.name, Output: string(out)}
	}
	if out, err := goCommand(ctx, dir, "build", "-buildvcs=false", "-ldflags", "-s -w "+t.flags, "-o", t.name+".new", "."); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", t.name, err, out)
	}
	return binary, os.Rename(filepath.Join(dir, t.name+".new"), binary)
}

func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.Bytes(), err
}
