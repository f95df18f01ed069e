package firstrule_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	kubectl := servertest.Kubectl(t)
	env := servertest.Start(t, servertest.Options{})
	run := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), kubectl, args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig(), "HOME="+t.TempDir())
		var out bytes.Buffer
		command.Stdout, command.Stderr = &out, &out
		err := command.Run()
		return out.String(), err
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		command string // as in the README
		args    []string
		says    []string
		fails   bool
	}{
		{"kubectl apply -f crd.yaml -f strategy.yaml", []string{"apply", "-f", "crd.yaml", "-f", "strategy.yaml"}, nil, false},
		{"kubectl apply -f team.yaml", []string{"apply", "-f", "team.yaml"}, []string{"a team without members", "created"}, false},
		{"kubectl get team blue -o jsonpath='{.spec.contact} {.metadata.labels.reviewed}'",
			[]string{"get", "team", "blue", "-o", "jsonpath={.spec.contact} {.metadata.labels.reviewed}"}, []string{"blue@example.com no"}, false},
		{"kubectl apply -f bad.yaml", []string{"apply", "-f", "bad.yaml"},
			[]string{`The Team "red" is invalid: spec.contact: Invalid value: "red@elsewhere.org": must be an address at example.com, not red@elsewhere.org`}, true},
		{`kubectl patch team blue --type=merge -p '{"spec":{"budget":1000}}'`, []string{"patch", "team", "blue", "--type=merge", "-p", `{"spec":{"budget":1000}}`},
			[]string{`The Team "blue" is invalid: spec.budget: Forbidden: a budget at most doubles in one step`}, true},
	}
	for _, tc := range tests {
		t.Run(tc.command, func(t *testing.T) {
			if !strings.Contains(string(text), "\n"+tc.command+"\n") {
				t.Errorf("the README does not have this command")
			}
			out, err := run(tc.args...)
			if (err != nil) != tc.fails {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("it says %q, want %q", out, want)
				}
				if tc.fails && !strings.Contains(string(text), want) {
					t.Errorf("the README does not show %q", want)
				}
			}
		})
	}
	commands := regexp.MustCompile(`(?m)^kubectl .*$`).FindAllString(string(text), -1)
	if len(commands) != len(tests) {
		t.Errorf("the README has %d commands, of which %d are tried", len(commands), len(tests))
	}
}
