package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/server/servertest"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: ["/readyz*"]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: RequestResponse, resources: [{group: "", resources: [configmaps]}], omitManagedFields: true}
- {level: Metadata}
`

// auditedPolicies are policies in CEL, in Rego and by modules that judge ConfigMaps, enforced and in shadow.
const auditedPolicies = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: cel}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations:
  - {expression: "object.metadata.name != 'shady'", message: shady is told of}
  auditAnnotations:
  - {key: name, valueExpression: string(object.metadata.name)}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: cel-strict}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations:
  - {expression: "object.metadata.name != 'bad'", message: bad is no name}
---
apiVersion: weir.dev/v1alpha1
kind: Policy
metadata: {name: rego}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  rego:
    source: |
      package names
      deny contains concat(" ", [input.object.metadata.name, "is no name"])
---
apiVersion: weir.dev/v1alpha1
kind: Policy
metadata: {name: teller}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  wasm: {module: teller}
---
apiVersion: weir.dev/v1alpha1
kind: Policy
metadata: {name: patchy}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  wasm: {module: patchy}
---
apiVersion: weir.dev/v1alpha1
kind: Policy
metadata: {name: sinner}
spec:
  failurePolicy: Ignore
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  wasm: {module: sinner}
`

const auditedBindings = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: cel}
spec: {policyName: cel, validationActions: [Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: cel-strict}
spec: {policyName: cel-strict, validationActions: [Deny]}
---
apiVersion: weir.dev/v1alpha1
kind: PolicyBinding
metadata: {name: rego-shadow}
spec: {policyName: rego, mode: Shadow, validationActions: [Deny]}
---
apiVersion: weir.dev/v1alpha1
kind: PolicyBinding
metadata: {name: rego-rollout}
spec: {policyName: rego, mode: Enforce, percent: 0, validationActions: [Deny]}
---
apiVersion: weir.dev/v1alpha1
kind: PolicyBinding
metadata: {name: teller}
spec: {policyName: teller, validationActions: [Audit]}
---
apiVersion: weir.dev/v1alpha1
kind: PolicyBinding
metadata: {name: patchy}
spec: {policyName: patchy, mode: Shadow}
---
apiVersion: weir.dev/v1alpha1
kind: PolicyBinding
metadata: {name: sinner}
spec: {policyName: sinner}
`

// auditModule is a Module that has its bytes in itself.
func auditModule(name string, wasm []byte) string {
	return "---\napiVersion: weir.dev/v1alpha1\nkind: Module\nmetadata: {name: " + name + "}\nspec: {source: {inline: " + base64.StdEncoding.EncodeToString(wasm) + "}}\n"
}

// auditEvent is an event of the log, as far as this test reads it.
type auditEvent struct {
	Level, Stage, Verb            string
	RequestURI                    string
	ObjectRef                     struct{ Resource, Name string }
	ResponseStatus                struct{ Code int }
	RequestObject, ResponseObject json.RawMessage
	Annotations                   map[string]string
}

// TestAuditLog has policies of all engines judge what kubectl writes, reads the log of the real binary when it has ended,
// and judges what is in it again.
func TestAuditLog(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	binary, err := weirBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir, kubectl := t.TempDir(), servertest.Kubectl(t)
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "logs", "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	server := serve(t, filepath.Join(dir, "data"), "--unsafe-no-fsync", "--audit-policy-file", policy, "--audit-log-path", log, "--audit-log-mode", "batch")
	config := server.config(t)
	run := func(stdin string, fails bool, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), kubectl, args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+server.kubeconfig, "HOME="+dir)
		command.Stdin = strings.NewReader(stdin)
		if out, err := command.CombinedOutput(); (err != nil) != fails {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	teller := hosttest.NewGuest("teller", abi.OpAdmitValidate)
	patchy := hosttest.NewGuest("patchy", abi.OpAdmitMutate)
	sinner := hosttest.NewGuest("sinner", abi.OpAdmitValidate)
	run(auditModule("teller", teller.Finish(teller.WriteText(nil, abi.SlotResult, `{"denied":{"message":"told"},"audit":{"seen":"yes"}}`)))+
		auditModule("patchy", patchy.Finish(patchy.WriteText(nil, abi.SlotPatch, `[{"op":"add","path":"/data","value":{"patched":"yes"}}]`)))+
		auditModule("sinner", sinner.Finish(hosttest.Code(nil).Unreachable())), false, "create", "-f", "-")
	run("", false, "wait", "--for=condition=Ready", "module", "--all", "--timeout=120s")
	run(auditedPolicies, false, "create", "-f", "-")
	run(auditedBindings, false, "create", "-f", "-")
	run("", false, "create", "configmap", "shady")
	run("", true, "create", "configmap", "bad")
	run("", true, "create", "configmap", "bad", "--dry-run=server")
	run("", false, "create", "secret", "generic", "s", "--from-literal=password=hunter2")
	if text := metricsOf(t, config); !strings.Contains(text, "\napiserver_audit_event_total") || !strings.Contains(text, `apiserver_audit_level_total{level="RequestResponse"}`) {
		t.Errorf("/metrics has no audit: %s", text)
	}
	if err := server.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := server.wait(t); code != 0 {
		t.Errorf("exit code %d: %s", code, server.log)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "aHVudGVyMg") {
		t.Error("a secret is in the log")
	}
	checkAuditLog(t, text)
	replayAuditLog(t, binary, log)
}

func metricsOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkAuditLog looks for what each policy has said.
func checkAuditLog(t *testing.T, text []byte) {
	t.Helper()
	find := func(resource, name, query string) *auditEvent {
		t.Helper()
		var found *auditEvent
		for line := range strings.Lines(string(text)) {
			var e auditEvent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v\n%s", err, line)
			}
			if e.Verb == "create" && e.ObjectRef.Resource == resource && e.ObjectRef.Name == name && strings.Contains(e.RequestURI, "dryRun=All") == (query != "") {
				if found != nil {
					t.Errorf("%s %s has two events", resource, name)
				}
				found = &e
			}
		}
		if found == nil || found.Stage != "ResponseComplete" {
			t.Fatalf("event of %s %s: %+v\n%s", resource, name, found, text)
		}
		return found
	}
	const shadow = "shadow.policy.weir.dev/"
	judged := func(name string) map[string]string {
		return map[string]string{
			"authorization.k8s.io/decision": "allow",
			"authorization.k8s.io/reason":   "",
			"cel/name":                      name,
			"teller/seen":                   "yes",
			shadow + "mutation":             `[{"message":"data","policy":"patchy","binding":"patchy"}]`,
			shadow + "validation_failure": `[{"message":"` + name + ` is no name","policy":"rego","binding":"rego-rollout","expressionIndex":0,"validationActions":["Deny"]},` +
				`{"message":"` + name + ` is no name","policy":"rego","binding":"rego-shadow","expressionIndex":0,"validationActions":["Deny"]}]`,
			"sinner.module.weir.dev/failure-admitValidate":          "trap",
			"validation.policy.admission.k8s.io/validation_failure": `[{"message":"told","policy":"teller","binding":"teller","expressionIndex":0,"validationActions":["Audit"]}]`,
		}
	}
	shady := judged("shady")
	shady["validation.policy.admission.k8s.io/validation_failure"] = `[{"message":"shady is told of","policy":"cel","binding":"cel","expressionIndex":0,"validationActions":["Audit"]},` +
		`{"message":"told","policy":"teller","binding":"teller","expressionIndex":0,"validationActions":["Audit"]}]`
	tests := []struct {
		resource, name, query, level string
		code                         int
		want                         map[string]string
	}{
		{"configmaps", "shady", "", "RequestResponse", 201, shady},
		{"configmaps", "bad", "", "RequestResponse", 422, judged("bad")},
		{"configmaps", "bad", "dryRun", "RequestResponse", 422, judged("bad")},
		{"secrets", "s", "", "Metadata", 201, map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}},
	}
	for _, tc := range tests {
		e := find(tc.resource, tc.name, tc.query)
		if e.Level != tc.level || e.ResponseStatus.Code != tc.code || (len(e.RequestObject) > 0) != (tc.level != "Metadata") || (len(e.ResponseObject) > 0) != (tc.level != "Metadata") {
			t.Errorf("%s %s: %+v", tc.resource, tc.name, e)
		}
		for key, value := range tc.want {
			if e.Annotations[key] != value {
				t.Errorf("%s %s %s: annotation %s\n is  %s\nwant %s", tc.resource, tc.name, tc.query, key, e.Annotations[key], value)
			}
		}
		if len(e.Annotations) != len(tc.want) {
			t.Errorf("%s %s: annotations %v", tc.resource, tc.name, e.Annotations)
		}
	}
}

// replayAuditLog judges by what policies were, and by another version of one.
func replayAuditLog(t *testing.T, binary, log string) {
	t.Helper()
	strict := strings.Split(auditedPolicies, "---\n")[:2]
	bindings := strings.Split(auditedBindings, "---\n")[:2]
	same := strings.Join(append(strict, bindings...), "---\n")
	tests := []struct {
		name, policies string
		code           int
		says           []string
	}{
		{"the same", same, 0, []string{": 0 differ"}},
		{"another", strings.Replace(same, "!= 'bad'", "!= 'shady'", 1), 1, []string{
			"CREATE configmaps default/shady by ", "the request: allowed → denied", "CREATE configmaps default/bad by ", "the request: denied → allowed", ": 3 differ"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			version := t.TempDir()
			if err := os.WriteFile(filepath.Join(version, "policies.yaml"), []byte(tc.policies), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), binary, "policy", "replay", log, "--policy", version)
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

// TestAuditFlags: a server whose audit cannot be does not start, and says why.
func TestAuditFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	binary, err := weirBinary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	policy, wrong := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "wrong.yaml")
	for name, text := range map[string]string{policy: auditPolicy, wrong: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		args []string
		says string
	}{
		{"a wrong policy", []string{"--audit-policy-file", wrong, "--audit-log-path", "-"}, `--audit-policy-file: rules[0].level: Unsupported value: "All"`},
		{"no policy", []string{"--audit-policy-file", policy + ".none", "--audit-log-path", "-"}, "--audit-policy-file: failed to read file path"},
		{"no file", []string{"--audit-policy-file", policy, "--audit-log-path", filepath.Join(policy, "audit.log")}, "--audit-log-path: mkdir"},
		{"a wrong mode", []string{"--audit-policy-file", policy, "--audit-log-path", "-", "--audit-log-mode", "never"}, `--audit-log-mode "never": give batch, blocking, blocking-strict`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--secure-port", "0"}, tc.args...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.says) {
				t.Errorf("%v: %s\nwant %q", err, out, tc.says)
			}
		})
	}
}
