package firstrule_test

import (
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	servertest.TypeReadme(t, servertest.Start(t, servertest.Options{}), []servertest.Typed{
		{Command: "kubectl apply -f crd.yaml -f strategy.yaml", Args: []string{"apply", "-f", "crd.yaml", "-f", "strategy.yaml"}},
		{Command: "kubectl apply -f team.yaml", Args: []string{"apply", "-f", "team.yaml"}, Says: []string{"a team without members", "created"}},
		{Command: "kubectl get team blue -o jsonpath='{.spec.contact} {.metadata.labels.reviewed}'",
			Args: []string{"get", "team", "blue", "-o", "jsonpath={.spec.contact} {.metadata.labels.reviewed}"}, Says: []string{"blue@example.com no"}},
		{Command: "kubectl apply -f bad.yaml", Args: []string{"apply", "-f", "bad.yaml"}, Fails: true,
			Says: []string{`The Team "red" is invalid: spec.contact: Invalid value: "red@elsewhere.org": must be an address at example.com, not red@elsewhere.org`}},
		{Command: `kubectl patch team blue --type=merge -p '{"spec":{"budget":1000}}'`, Fails: true,
			Args: []string{"patch", "team", "blue", "--type=merge", "-p", `{"spec":{"budget":1000}}`},
			Says: []string{`The Team "blue" is invalid: spec.budget: Forbidden: a budget at most doubles in one step`}},
	})
}
