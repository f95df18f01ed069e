package audit_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir.dev/weir/server"
	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/servertest/tools"
)

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	env := servertest.Start(t, servertest.Options{Config: server.Config{
		Audit: audit.Config{PolicyFile: "policy.yaml", Log: audit.LogConfig{Path: log}},
	}})
	servertest.TypeReadme(t, env, []servertest.Typed{
		{Command: "kubectl apply -f rules.yaml", Args: []string{"apply", "-f", "rules.yaml"}},
		{Command: "kubectl create -f web.yaml", Args: []string{"create", "-f", "web.yaml"}, Says: []string{"deployment.apps/web created"}},
	})
	if err := env.Stop(); err != nil { // an event is written when its request has been answered
		t.Fatal(err)
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := tools.BuildWeir(t.Context(), filepath.Join(dir, "weir")); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		command string
		code    int
		says    []string
	}{
		{`grep -h '"verb":"create".*"name":"web"' audit.log | grep -o '"annotations":.*'`, 0, []string{
			`"authorization.k8s.io/decision":"allow"`, `"replicas/replicas":"1"`,
			`"shadow.policy.weir.dev/validation_failure":"[{\"message\":\"image docker.io/web:1 is from elsewhere\",\"policy\":\"registries\",\"binding\":\"registries\",`,
			`"validation.policy.admission.k8s.io/validation_failure":"[{\"message\":\"one replica is none while a node is drained\",\"policy\":\"replicas\",\"binding\":\"replicas\",`,
		}},
		{"weir policy replay audit.log --policy strict", 1, []string{"CREATE deployments.apps default/web by weir-admin",
			"  the request: allowed → denied\n    + deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: one replica is none while a node is drained\n"}},
	} {
		t.Run(tc.command, func(t *testing.T) {
			if !strings.Contains(string(text), "\n"+tc.command+"\n") {
				t.Error("the README does not have this command")
			}
			line := strings.ReplaceAll(strings.ReplaceAll(tc.command, "audit.log", log), "strict", filepath.Join(here, "strict"))
			command := exec.CommandContext(t.Context(), "sh", "-c", line)
			command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := command.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || command.ProcessState.ExitCode() != tc.code {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range tc.says {
				if !strings.Contains(string(out), want) || !strings.Contains(string(text), want) {
					t.Errorf("want %q, which the README shows\n%s", want, out)
				}
			}
		})
	}
}
