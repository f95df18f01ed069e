package e2e_test

import (
	"os/exec"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestKubectlWithFewRights creates what is answered and not stored as a user who may do nothing else: kubectl must not
// want to list CustomResourceDefinitions first. What is misspelt is refused by the server.
func TestKubectlWithFewRights(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	run := func(stdin string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), servertest.Kubectl(t), args...)
		command.Env = append(command.Environ(), "KUBECONFIG="+env.Kubeconfig(), "HOME="+t.TempDir())
		command.Stdin = strings.NewReader(stdin)
		out, _ := command.CombinedOutput() // what it says is what is compared
		return string(out)
	}
	run("", "create", "clusterrole", "asker", "--verb=create", "--resource=policyimpacts.weir.dev")
	run("", "create", "clusterrolebinding", "asker", "--clusterrole=asker", "--user=jane")
	tests := []struct{ name, object, want string }{
		{"impact", `{"apiVersion":"weir.dev/v1alpha1","kind":"PolicyImpact","metadata":{"name":"x"},"spec":{"objects":[{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}]}}`,
			"complete: true"},
		{"misspelt", `{"apiVersion":"weir.dev/v1alpha1","kind":"PolicyImpact","spec":{"object":[]}}`, `unknown field "spec.object"`},
		{"review", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`,
			"allowed: false"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := run(tc.object, "create", "--as", "jane", "-f", "-", "-o", "yaml"); !strings.Contains(got, tc.want) || strings.Contains(got, "customresourcedefinitions") {
				t.Errorf("kubectl says\n%s want %s", got, tc.want)
			}
		})
	}
}
