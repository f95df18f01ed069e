package vap_test

import (
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	servertest.TypeReadme(t, servertest.Start(t, servertest.Options{}), []servertest.Typed{
		{Command: "kubectl apply -f policy.yaml -f limits.yaml", Args: []string{"apply", "-f", "policy.yaml", "-f", "limits.yaml"}},
		{Command: "kubectl apply -f deployment.yaml", Args: []string{"apply", "-f", "deployment.yaml"}, Says: []string{"created"}},
		{Command: "kubectl scale deployment web --replicas=4", Args: []string{"scale", "deployment", "web", "--replicas=4"}, Fails: true,
			Says: []string{"ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: at most 3 replicas in this namespace, not 4"}},
		{Command: `kubectl patch configmap limits --type=merge -p '{"data":{"most":"5"}}'`, Args: []string{"patch", "configmap", "limits", "--type=merge", "-p", `{"data":{"most":"5"}}`}},
		{Command: "kubectl scale deployment web --replicas=5", Args: []string{"scale", "deployment", "web", "--replicas=5"}, Says: []string{"scaled"}},
	})
}
