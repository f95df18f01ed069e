package servertest

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"weir.dev/weir/server/servertest/tools"
)

// Kubectl returns the path of the kubectl on PATH, or of one that is built, see [KubectlModule].
func Kubectl(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path
	}
	return KubectlModule(t)
}

// KubectlModule returns the path of a kubectl of [tools.KubectlVersion]. When its modules cannot be had it skips the
// test, and fails it where the variable CI is set.
func KubectlModule(t testing.TB) string {
	t.Helper()
	path, err := tools.BuildKubectl(t.Context())
	var missing *tools.UnreachableError
	if errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
