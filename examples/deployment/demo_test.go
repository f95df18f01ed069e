package deployment_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDemo runs what `make demo` runs.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary and two modules")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	out, err := exec.CommandContext(t.Context(), bash, "demo.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"deployment.apps/web created",
		"/registry/apps/deployments/default/web",
		"ADDED web at",
		"spec.replicas: Invalid value: -1",
		"say a version, not latest",
		"status.lastError: ",
		" writes, 0 failed",
		"exit code 0",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demo does not say %q\n%s", want, out)
		}
	}
}
