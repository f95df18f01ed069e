// Package tools builds the clients that a server is tried with from their modules.
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

// KubectlVersion is the version of the kubectl that [BuildKubectl] builds.
const KubectlVersion = "v1.37.2"

// kubectlFiles are a module with nothing but kubectl. The names end in .txt because a directory
// with a go.mod of its own cannot be embedded.
//
//go:embed module-kubectl/*.txt
var kubectlFiles embed.FS

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

// BuildKubectl builds kubectl from its modules, once for each user: the binary is kept in the
// user's cache directory and used again. Builds at the same time, of other processes too, wait for each
// other. The first one takes a minute or two, and needs the modules.
func BuildKubectl(ctx context.Context) (string, error) {
	files := map[string][]byte{}
	sum := sha256.New()
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		data, err := kubectlFiles.ReadFile("module-kubectl/" + name + ".txt")
		if err != nil {
			return "", fmt.Errorf("kubectl: %w", err)
		}
		files[name] = data
		sum.Write(data)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("kubectl: %w", err)
	}
	dir := filepath.Join(cache, "weir", "tools", "kubectl-"+KubectlVersion+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	binary := filepath.Join(dir, "kubectl")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("kubectl: %w", err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("kubectl: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", fmt.Errorf("kubectl: %w", err)
		}
	}
	if out, err := goCommand(ctx, dir, "list", "-deps", "."); err != nil {
		return "", &UnreachableError{Tool: "kubectl", Output: string(out)}
	}
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + KubectlVersion + " -X k8s.io/client-go/pkg/version.gitVersion=" + KubectlVersion
	if out, err := goCommand(ctx, dir, "build", "-buildvcs=false", "-ldflags", flags, "-o", "kubectl.new", "."); err != nil {
		return "", fmt.Errorf("build kubectl: %w\n%s", err, out)
	}
	return binary, os.Rename(filepath.Join(dir, "kubectl.new"), binary)
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
