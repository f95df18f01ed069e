package tools_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest/tools"
)

func TestEtcdModule(t *testing.T) {
	path, err := tools.BuildEtcd(t.Context())
	var unreachable *tools.UnreachableError
	if errors.As(err, &unreachable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := strings.TrimPrefix(tools.EtcdVersion, "v"); !strings.Contains(string(out), want) {
		t.Errorf("etcd --version says %s, want %s", out, want)
	}
}
