package rollout_test

import (
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	create := servertest.Typed{Command: "kubectl create -f pod.yaml", Args: []string{"create", "-f", "pod.yaml"}, Says: []string{"created"}}
	refused := create
	refused.Fails, refused.Says = true, []string{"Policy 'registries' with binding 'registries' denied request: image docker.io/tool:1 is from elsewhere"}
	servertest.TypeReadme(t, servertest.Start(t, servertest.Options{}), []servertest.Typed{
		{Command: "kubectl apply -f policy.yaml", Args: []string{"apply", "-f", "policy.yaml"}},
		create,
		{Command: "kubectl get policybinding registries", Args: []string{"get", "policybinding", "registries"}, Says: []string{"SHADOW-DENIED", "Shadow   0        1"}, Until: true},
		{Command: "kubectl get policybinding registries -o jsonpath='{.status.servers[0].samples[0].message}'",
			Args: []string{"get", "policybinding", "registries", "-o", "jsonpath={.status.servers[0].samples[0].message}"}, Says: []string{"image docker.io/tool:1 is from elsewhere"}},
		{Command: `kubectl patch policybinding registries --type=merge -p '{"spec":{"mode":"Enforce","percent":100}}'`,
			Args: []string{"patch", "policybinding", "registries", "--type=merge", "-p", `{"spec":{"mode":"Enforce","percent":100}}`}},
		{Command: "kubectl delete pod tool", Args: []string{"delete", "pod", "tool", "--wait=false"}},
		refused,
	})
}
