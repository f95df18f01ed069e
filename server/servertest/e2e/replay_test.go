package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"weir.dev/weir/server"
	"weir.dev/weir/server/recording"
	"weir.dev/weir/server/servertest"
)

const replayPolicies = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  validations:
  - expression: object.spec.replicas <= int(params.data.most)
    messageExpression: '"at most " + params.data.most'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"team": "a"}}}'}}
---
apiVersion: weir.dev/v1alpha1
kind: Policy
metadata: {name: images}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  rego:
    source: |
      package images
      deny contains msg if {
        some c in input.object.spec.template.spec.containers
        startswith(c.image, "bad/")
        msg := concat(" ", ["image", c.image])
      }
`

const replayBindings = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Deny], paramRef: {name: replicas, namespace: default, parameterNotFoundAction: Deny}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: team}
spec: {policyName: team}
---
apiVersion: weir.dev/v1alpha1
kind: PolicyBinding
metadata: {name: images}
spec: {policyName: images, mode: Shadow, validationActions: [Deny]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: replicas, namespace: default}
data: {most: "3"}
`

func replayDeployment(name, replicas, image string) string {
	return strings.NewReplacer("NAME", name, "REPLICAS", replicas, "IMAGE", image).Replace(`apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec: {replicas: REPLICAS, selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: c, image: IMAGE}]}}}
`)
}

// TestReplay records what kubectl does, and judges it by the same policies and by others.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	binary, err := weirBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir, kubectl := t.TempDir(), servertest.Kubectl(t)
	record := filepath.Join(dir, "requests.log")
	env := servertest.Start(t, servertest.Options{Config: server.Config{Record: recording.Config{File: record}}})
	run := func(stdin string, fails bool, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), kubectl, args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig(), "HOME="+dir)
		command.Stdin = strings.NewReader(stdin)
		if out, err := command.CombinedOutput(); (err != nil) != fails {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run(replayPolicies+replayBindings, false, "apply", "-f", "-")
	run(replayDeployment("web", "3", "good/web"), false, "create", "-f", "-")
	run(replayDeployment("shady", "1", "bad/web"), false, "create", "-f", "-")
	run(replayDeployment("big", "9", "good/web"), true, "create", "-f", "-")
	run("", false, "scale", "deployment", "web", "--replicas=2")
	run("", false, "create", "secret", "generic", "s", "--from-literal=password=hunter2")
	run("", false, "delete", "deployment", "web", "--cascade=orphan")

	// What a binding read when the request came is judged by, though it is another by now.
	run(strings.Replace(replayBindings, `most: "3"`, `most: "1"`, 1), false, "apply", "-f", "-")
	lintWithServer(t, binary, env.Kubeconfig(), run)
	metrics := func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, env.URL()+"/metrics", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := env.Client().Do(request)
		if err != nil {
			return false, err
		}
		defer func() { _ = response.Body.Close() }()
		var text bytes.Buffer
		if _, err := text.ReadFrom(response.Body); err != nil {
			return false, err
		}
		return strings.Contains(text.String(), "\nweir_admission_records_total") && !strings.Contains(text.String(), "\nweir_admission_records_total 0\n"), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, metrics); err != nil {
		t.Fatal(err)
	}
	if err := env.Stop(); err != nil { // so that all is written
		t.Fatal(err)
	}
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("hunter2")) || bytes.Contains(text, []byte("aHVudGVyMg")) || !bytes.Contains(text, []byte(`"redacted":true`)) {
		t.Errorf("a secret is recorded: %s", text)
	}
	if !bytes.Contains(text, []byte(`"phase":"Validate","mutated":true`)) {
		t.Errorf("no request is recorded in two phases that know of each other: %s", text)
	}
	tests := []struct {
		name, policies string
		code           int
		says           []string
	}{
		{"the same", replayPolicies, 0, []string{": 0 differ", "not judged: 1 about secrets"}},
		{"CEL", strings.Replace(replayPolicies, "replicas <= int", "replicas < int", 1), 1, []string{
			"CREATE deployments.apps default/web by ", "ValidatingAdmissionPolicy/replicas: allowed → denied\n    + at most 3\n", ": 1 differ"}},
		{"what is set", strings.Replace(replayPolicies, `"team": "a"`, `"team": "b"`, 1), 1, []string{
			"MutatingAdmissionPolicy/team: changed, to another object\n", "-     team: a\n", "+     team: b\n"}},
		{"Rego", strings.Replace(replayPolicies, `"bad/"`, `"good/"`, 1), 1, []string{
			"CREATE deployments.apps default/shady by ", "Policy/images: denied → allowed\n    - image bad/web\n", "Policy/images: allowed → denied\n    + image good/web\n"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			version := t.TempDir()
			if err := os.WriteFile(filepath.Join(version, "policies.yaml"), []byte(tc.policies), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), binary, "policy", "replay", record, "--policy", version)
			out, err := command.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || command.ProcessState.ExitCode() != tc.code {
				t.Errorf("%v", err)
			}
			for _, want := range tc.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}

// lintWithServer looks at a policy of a custom resource whose definition the server alone has.
func lintWithServer(t *testing.T, binary, kubeconfig string, run func(stdin string, fails bool, args ...string)) {
	t.Helper()
	run(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {image: {type: string}}}}}}
`, false, "apply", "-f", "-")
	file := filepath.Join(t.TempDir(), "policy.yaml")
	err := os.WriteFile(file, []byte(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: images}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [stable.example.com], apiVersions: [v1], operations: [CREATE], resources: [crontabs]}]}
  validations:
  - expression: object.spec.imag != ""
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := exec.CommandContext(t.Context(), binary, "policy", "lint", file).CombinedOutput() // what it says is looked at
	if !strings.Contains(string(out), "[matches-nothing]") {
		t.Errorf("without the server it says\n%s", out)
	}
	command := exec.CommandContext(t.Context(), binary, "policy", "lint", file, "--kubeconfig", kubeconfig)
	out, _ = command.CombinedOutput()
	if want := file + ":7:28: error: undefined field 'imag', for stable.example.com/v1, Kind=CronTab [type]"; command.ProcessState.ExitCode() != 1 ||
		!strings.Contains(string(out), want) || strings.Contains(string(out), "[matches-nothing]") {
		t.Errorf("with the server it says\n%s", out)
	}
}
