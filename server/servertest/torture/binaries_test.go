//go:build unix

package torture_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"weir.dev/weir/server/servertest/tools"
)

// weirBinary builds the server, once for all tests: TestMain removes its directory.
var weirBinary = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(binaries, "weir")
	return binary, tools.BuildWeir(context.Background(), binary)
})

// binaries is the directory of weirBinary.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir-torture-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func weirFor(t *testing.T) string {
	t.Helper()
	if *built != "" {
		return *built
	}
	binary, err := weirBinary()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// etcdFor returns an etcd. When its modules cannot be had it skips the test, and fails it where CI is set.
func etcdFor(t *testing.T) string {
	t.Helper()
	binary, err := tools.BuildEtcd(context.WithoutCancel(t.Context()))
	var missing *tools.UnreachableError
	if errors.As(err, &missing) && os.Getenv("CI") == "" {
		if binary, err := exec.LookPath("etcd"); err == nil {
			return binary
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
