// Command gen writes the generated files of server/resources.
//
// For the OpenAPI v3 schemas of the built-in API types it reads the Go source
// of the API modules that go.mod pins, by way of kube-openapi's openapi-gen,
// and writes one file for each API package to schemas/: a JSON object with one
// definition a line, in name order, named as the model is
// (io.k8s.api.apps.v1.json holds every io.k8s.api.apps.v1.*). It also compiles
// packs/*.yaml into packs.json. The output depends on go.mod and the packs
// alone.
//
// Run it from anywhere inside the module: go run ./server/resources/gen
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "", "directory that holds packs/ and gets schemas/ and packs.json (default: server/resources of the module)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run generates into out.
func run(ctx context.Context, out string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(root, "server", "resources")
	}
	if err := compilePacks(out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "openapi-gen-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()

	dump, err := definitions(ctx, root, work)
	if err != nil {
		return err
	}
	return writeSchemas(filepath.Join(out, "schemas"), dump)
}

// moduleRoot is the directory of the go.mod in force.
func moduleRoot(ctx context.Context) (string, error) {
	mod, err := command(ctx, ".", "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	mod = strings.TrimSpace(mod)
	if mod == "" || mod == os.DevNull {
		return "", fmt.Errorf("no go.mod here: run inside the module")
	}
	return filepath.Dir(mod), nil
}

// command runs a program in dir and gives its standard output; its standard
// error is part of the error.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, args[0], err, stderr.String())
	}
	return stdout.String(), nil
}
