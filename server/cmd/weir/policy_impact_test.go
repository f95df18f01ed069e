package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	misspelt := filepath.Join(t.TempDir(), "misspelt.yaml")
	if err := os.WriteFile(misspelt, []byte("apiVersion: weir.dev/v1alpha1\nkind: Polcy\nmetadata: {name: a}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = impact("-f", misspelt); err == nil || !strings.Contains(err.Error(), `spec.objects[2].kind: Invalid value: "Polcy": there is no kind "Polcy" in weir.dev/v1alpha1`) {
		t.Errorf("got %v", err)
	}
	if _, err = impact("--operation", "LOOK"); err == nil || !strings.Contains(err.Error(), "spec.operation: Unsupported value") {
		t.Errorf("got %v", err)
	}
}

// Whom nobody told where the server is, hears how to say it.
// TestPolicyImpactReadsLists reads a list as a server sends it and one of kubectl: each item with its kind.
func TestPolicyImpactReadsLists(t *testing.T) {
	lists := `{"apiVersion":"weir.dev/v1alpha1","items":[{"metadata":{"name":"a"}},{"kind":"Other","metadata":{"name":"b"}}],"kind":"PolicyList","metadata":{}}
---
{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"ConfigMap"},{}],"kind":"List"}
`
	objects, err := readObjects(strings.NewReader(lists), "-")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, string(o.Raw))
	}
	want := []string{`{"apiVersion":"weir.dev/v1alpha1","kind":"Policy","metadata":{"name":"a"}}`, `{"kind":"Other","metadata":{"name":"b"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap"}`, `{}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := readObjects(strings.NewReader(`{"items":["a",1],"kind":"PolicyList"}`), "-"); err == nil {
		t.Error("items that are no objects are read")
	}
}

func TestPolicyImpactWithoutServer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(impactRules), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := weir(t, "policy", "impact", "-f", file); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("got %v", err)
	}
}

// A server that does not get on, or that fails midway, ends the count; what was counted until then is printed.
func TestPolicyImpactEnds(t *testing.T) {
	const counted = `{"status":{"complete":false,"reason":"the time was over","continue":"a","resources":[{"resource":"secrets","operations":["UPDATE"],"objects":3,"concerned":3}]}}`
	const gone = `{"error":{"status":"Failure","message":"the state is gone","code":410}}`
	tests := []struct {
		name    string
		answers []string
		err     string
		printed string
	}{
		{"the same token again", []string{counted, counted}, "the server does not get on with the count: the time was over", "secrets: 6 objects as UPDATE, 6 concerned"},
		{"an error midway", []string{counted, gone}, "the state is gone", "secrets: 3 objects as UPDATE, 3 concerned: 0 denied, 0 changed, 0 failed, 0 warned of, 0 in shadow\nnote: not all objects were looked at: the state is gone\n"},
		{"an error at once", []string{gone}, "the state is gone", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked == len(tc.answers) {
					t.Error("it is asked once more")
					w.WriteHeader(http.StatusTeapot)
					return
				}
				_, _ = fmt.Fprintln(w, tc.answers[asked])
				asked++
			}))
			defer server.Close()
			dir := t.TempDir()
			file, kubeconfig := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "kubeconfig")
			if err := os.WriteFile(file, []byte(impactRules), 0o600); err != nil {
				t.Fatal(err)
			}
			config := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '" + server.URL + "'}}]}"
			if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			root := rootCommand()
			root.SetOut(&out)
			root.SetArgs([]string{"policy", "impact", "--kubeconfig", kubeconfig, "-f", file})
			err := root.ExecuteContext(t.Context())
			if err == nil || err.Error() != tc.err || !strings.HasPrefix(out.String(), tc.printed) || (tc.printed == "") != (out.Len() == 0) || asked != len(tc.answers) {
				t.Errorf("got %v\n%s", err, out.String())
			}
		})
	}
}
