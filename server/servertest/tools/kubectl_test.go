package tools_test

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/servertest/tools"
)

func TestKubectlModule(t *testing.T) {
	path := servertest.KubectlModule(t)
	out, err := exec.CommandContext(t.Context(), path, "version", "--client").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), tools.KubectlVersion) {
		t.Errorf("kubectl version says %s, want %s", out, tools.KubectlVersion)
	}
	// Those who ask at the same time get the same one.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if again, err := tools.BuildKubectl(t.Context()); err != nil || again != path {
				t.Errorf("got %s, %v, want %s", again, err, path)
			}
		})
	}
	wg.Wait()
}

func TestKubectlModuleWithoutModules(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	_, err := tools.BuildKubectl(context.WithoutCancel(t.Context()))
	if err == nil {
		t.Fatal("built without modules")
	}
	if !strings.Contains(err.Error(), "GOPROXY") || !strings.Contains(err.Error(), "put kubectl on PATH") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}
