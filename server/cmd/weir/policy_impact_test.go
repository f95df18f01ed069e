package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/servertest"
)

const impactRules = `# what is asked
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: short}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets]}]}
  validations: [{expression: "object.metadata.name.size() < 3", message: "the name is too long"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: short}
spec: {policyName: short, validationActions: [Deny]}
`

func TestPolicyImpact(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	client, err := kubernetes.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if _, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(impactRules), 0o600); err != nil {
		t.Fatal(err)
	}
	impact := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetArgs(append([]string{"policy", "impact", "--kubeconfig", env.Kubeconfig(), "-f", file}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	var code exitCode
	got, err := impact("--limit", "1")
	if !errors.As(err, &code) || code != 1 || got != "secrets default/s10: Denied (short): the name is too long\n… and 1 more\n"+
		"secrets: 12 objects as UPDATE, 12 concerned: 2 denied, 0 changed, 0 failed, 0 warned of, 0 in shadow\n" {
		t.Errorf("got %v\n%s", err, got)
	}
	got, err = impact("-o", "json", "--max-objects", "5", "-n", "default")
	var answer v1alpha1.PolicyImpact
	if jsonErr := json.Unmarshal([]byte(got), &answer); jsonErr != nil || !errors.As(err, &code) || answer.Status.Complete || answer.Status.Resources[0].Objects != 5 || len(answer.Status.Findings) != 2 {
		t.Errorf("got %v\n%s", err, got)
	}
	if got, err = impact("--all", "-o", "json"); strings.Count(got, "\n") != 3 || strings.Count(got, `{"finding":`) != 2 || !strings.Contains(got, `{"status":`) {
		t.Errorf("got %v\n%s", err, got)
	}
	if got, err = impact("--operation", "DELETE"); err != nil || !strings.Contains(got, `note: policy "short" concerns no object that is stored`) {
		t.Errorf("got %v\n%s", err, got)
	}
	if _, err = impact("--operation", "LOOK"); err == nil || !strings.Contains(err.Error(), "spec.operation: Unsupported value") {
		t.Errorf("got %v", err)
	}
}
