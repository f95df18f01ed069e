package envtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/weir/server/servertest/tools"
)

// assets is the directory that `weir envtest` makes, once for all tests: TestMain removes it.
var assets = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(temporary, "weir")
	if err := tools.BuildWeir(context.Background(), binary); err != nil {
		return "", err
	}
	out, err := exec.Command(binary, "envtest", filepath.Join(temporary, "assets")).Output()
	if err != nil {
		return "", fmt.Errorf("weir envtest: %w", err)
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "export KUBEBUILDER_ASSETS=")
	if !ok {
		return "", fmt.Errorf("weir envtest printed %q", out)
	}
	return dir, nil
})

// temporary is the directory of the binary and of assets.
var temporary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir-envtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	temporary = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func assetsOf(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and starts the binary")
	}
	dir, err := assets()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEnvtest runs the test of a controller as its user does.
func TestEnvtest(t *testing.T) {
	t.Parallel()
	dir := assetsOf(t)
	if out, err := program(t, dir, "list", "-deps", "-test", "."); err != nil {
		text := "the modules of controller-runtime are not in the module cache and GOPROXY does not give them; connect once\n" + out
		if os.Getenv("CI") != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	out, err := program(t, dir, "test", "-count=1", "-v", "-timeout", "5m", ".")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, "_test.go:") { // how long it took
			t.Log(strings.TrimSpace(line))
		}
	}
}

// program runs go in the user's module.
func program(t *testing.T, assets string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = filepath.Join("testdata", "program")
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "KUBEBUILDER_ASSETS="+assets, "USE_EXISTING_CLUSTER=")
	command.WaitDelay = 10 * time.Second
	out, err := command.CombinedOutput()
	return string(out), err
}
