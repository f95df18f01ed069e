package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir.dev/weir/server/offline"
)

// recordLine is a line of a recording about a pod.
func recordLine(phase, uid, labels, more, outcome, message string) string {
	verdicts := ""
	if outcome != "" {
		verdicts = fmt.Sprintf(`,"verdicts":[{"kind":"ValidatingAdmissionPolicy","policy":"labels","binding":"b","outcome":%q,"message":%q}]`, outcome, message)
	}
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":%q,"operation":"CREATE","namespace":"default","name":"web","resource":{"group":"","version":"v1","resource":"pods"},"userInfo":{"username":"eve"},"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"%s},"spec":{"containers":[{"name":"c","image":"i"}]}}},"response":{"uid":%q,"allowed":%v},"weir":{"time":"2026-01-01T00:00:00Z","phase":%q%s%s}}`,
		uid, labels, uid, outcome != "deny", phase, verdicts, more) + "\n"
}

func TestPolicyReplay(t *testing.T) {
	const labelled = `,"labels":{"team":"a"}`
	denied, allowed := recordLine("Validate", "u1", "", "", "deny", "labels are missing"), recordLine("Validate", "u2", labelled, "", "allow", "")
	withParam := strings.Replace(labelVAP, "spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n", 1)
	withParam = strings.Replace(withParam, "expression: has(object.metadata.labels)", `expression: "object.metadata.?labels.orValue({}).size() >= int(params.data.n)"`, 1)
	params := func(n string) string {
		return `,"params":[{"kind":"ValidatingAdmissionPolicy","policy":"labels","binding":"b","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"elsewhere"},"data":{"n":"` + n + `"}}},` +
			`{"kind":"ValidatingAdmissionPolicy","policy":"other","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o"},"data":{"n":"100"}}}]`
	}
	changed := `,"verdicts":[{"kind":"MutatingAdmissionPolicy","policy":"label","binding":"b","outcome":"mutate"}],"patched":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"team":%q},"name":"web","namespace":"default"}}`
	// Of a kind that has no defaults: what is recorded has them.
	mapLine := func(line string) string {
		return strings.NewReplacer(`"resource":"pods"`, `"resource":"configmaps"`, `"kind":"Pod"`, `"kind":"ConfigMap"`, `,"spec":{"containers":[{"name":"c","image":"i"}]}`, "").Replace(line)
	}
	mapMAP := strings.Replace(labelMAP, "[pods]", "[configmaps]", 1)
	audit := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"u9","stage":"ResponseComplete","verb":"create","user":{"username":"eve"},"objectRef":{"resource":"pods","namespace":"default","name":"web","apiVersion":"v1"},"responseStatus":{"code":201},"responseObject":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},"spec":{}}}` + "\n"
	tests := []struct {
		name, recording     string
		policy, against     string
		args                []string
		code                int
		says, silent        []string
		error               string
		judged, differences int
	}{
		{name: "the same", recording: denied + allowed, policy: labelVAP, says: []string{"2 requests judged: 0 differ"}},
		{name: "other words", recording: denied + allowed, policy: strings.Replace(labelVAP, "message: labels are missing", "message: labels please", 1), code: 1,
			says: []string{"CREATE pods default/web by eve (uid u1, line 1)\n  ValidatingAdmissionPolicy/labels: denied, in other words\n    - labels are missing\n    + labels please\n", "1 differ"}},
		{name: "allowed is denied", recording: denied + allowed, policy: strings.Replace(labelVAP, "has(object.metadata.labels)", "1 == 2", 1), code: 1,
			says: []string{"uid u2, line 2", "allowed → denied\n    + labels are missing"}, silent: []string{"uid u1"}},
		{name: "against another version", recording: denied + allowed, policy: labelVAP, against: strings.Replace(labelVAP, "has(object.metadata.labels)", "1 == 1", 1), code: 1,
			says: []string{"uid u1", "allowed → denied"}, silent: []string{"uid u2"}},
		{name: "a shadow's verdict is that of its policy", recording: recordLine("Validate", "u1", "", "", "shadow_deny", "labels are missing"), policy: labelVAP, says: []string{"0 differ"}},
		{name: "a policy that does not concern it allows", recording: recordLine("Validate", "u1", "", "", "", ""), policy: strings.Replace(labelVAP, "[pods]", "[services]", 1), says: []string{"1 requests judged: 0 differ"}},
		{name: "params are those that were recorded", recording: recordLine("Validate", "u1", labelled, params("1"), "allow", "") + recordLine("Validate", "u2", labelled, params("2"), "allow", ""), policy: withParam, code: 1,
			says: []string{"uid u2", "2 requests judged: 1 differ"}, silent: []string{"uid u1"}},
		{name: "those beside the policy come first", recording: recordLine("Validate", "u1", labelled, params("1"), "allow", ""),
			policy: withParam + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: n}\ndata: {\"n\": '3'}\n", code: 1, says: []string{"allowed → denied"}},
		{name: "what was changed, changed to the same", recording: mapLine(recordLine("Mutate", "u1", "", fmt.Sprintf(changed, "a"), "", "")), policy: mapMAP, says: []string{"1 requests judged: 0 differ"}},
		{name: "what was changed, changed to something else", recording: mapLine(recordLine("Mutate", "u1", "", fmt.Sprintf(changed, "b"), "", "")), policy: mapMAP, code: 1,
			says: []string{"changed, to another object", "-     team: b", "+     team: a"}},
		{name: "what nobody had changed", recording: mapLine(recordLine("Validate", "u1", "", "", "", "")), policy: mapMAP, code: 1, says: []string{"allowed → changed", "+   labels:"}},
		{name: "secrets", recording: allowed + recordLine("Validate", "u3", "", `,"redacted":true`, "deny", ""), policy: labelVAP, says: []string{"1 requests judged", "not judged: 1 about secrets or what --record-redact named"}},
		{name: "a kind that is not known", recording: allowed + strings.NewReplacer(`"resource":"pods"`, `"resource":"foos"`, `"kind":"Pod"`, `"kind":"Foo"`).Replace(denied), policy: labelVAP, says: []string{"not judged: 1: resource foos is not known"}},
		{name: "an audit log says only what became of the request", recording: audit, policy: labelVAP, code: 1, says: []string{"the request: allowed → denied"}},
		{name: "json", recording: denied + allowed, policy: labelVAP, args: []string{"-o", "json"}, says: []string{`{"summary":{"judged":2,"differ":0,"changes":{},"redacted":0}}`}},
		{name: "a limit", recording: strings.Repeat(allowed, 3), policy: strings.Replace(labelVAP, "has(object.metadata.labels)", "1 == 2", 1), args: []string{"--limit", "1"}, code: 1, says: []string{"line 1", "3 requests judged: 3 differ"}, silent: []string{"line 2"}},
		{name: "nothing to judge", recording: recordLine("Validate", "u3", "", `,"redacted":true`, "deny", ""), policy: labelVAP, code: 2, error: "no request could be judged"},
		{name: "no recording", recording: "hello\n", policy: labelVAP, code: 2, says: []string{"left out: 1 lines that do not parse"}, error: "no request could be judged"},
		{name: "another file", recording: "{\"kind\":\"Pod\"}\n", policy: labelVAP, code: 2, error: "requests.log: line 1: kind \"Pod\" is neither"},
		{name: "a line that a crash cut off", recording: denied[:100] + "\n" + denied + allowed, policy: labelVAP, says: []string{"2 requests judged: 0 differ", "left out: 1 lines that do not parse"}},
		{name: "and what was appended to it", recording: denied[:100] + denied + allowed, policy: labelVAP, says: []string{"1 requests judged: 0 differ", "left out: 1 lines that do not parse"}},
		{name: "a policy that does not compile", recording: denied, policy: strings.Replace(labelVAP, "has(object", "has(objekt", 1), code: 2, error: "undeclared reference to 'objekt'"},
		{name: "no policy", recording: denied, policy: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", code: 2, error: "--policy: no policy in"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			root := files(t, map[string]string{"requests.log": tc.recording, "new/policy.yaml": tc.policy, "old/policy.yaml": tc.against})
			args := append([]string{"policy", "replay", filepath.Join(root, "requests.log"), "--policy", filepath.Join(root, "new")}, tc.args...)
			if tc.against != "" {
				args = append(args, "--against", filepath.Join(root, "old"))
			}
			out, code, err := weir(t, args...)
			if code != tc.code || (err != nil) != (tc.error != "") || err != nil && !strings.Contains(err.Error(), tc.error) {
				t.Errorf("code %d, %v", code, err)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			for _, not := range tc.silent {
				if strings.Contains(out, not) {
					t.Errorf("it says %q", not)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
	if _, code, err := weir(t, "policy", "replay", "x"); code != 2 || err == nil || !strings.Contains(err.Error(), "--policy is missing") {
		t.Errorf("code %d, %v without --policy", code, err)
	}
}

const lintedPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: linted
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: stable.example.com/v1, kind: CronTab}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deploymentz]}
  variables:
  - name: unused
    expression: object.spec
  validations:
  - expression: >-
      object.spec.replicas > 0 &&
      object.spec.replica > 1
    message: not so few
  - expression: 1 == 1
  - expression: "object.spec.template.spec.containers.all(a, object.spec.template.spec.containers.all(b, object.spec.template.spec.containers.all(c, a.name != b.name || b.name == c.name)))"
`

const moduleAndPolicy = "apiVersion: weir.dev/v1alpha1\nkind: Module\nmetadata: {name: guard}\nspec: {source: {file: guard.wasm}}\n---\n" +
	"apiVersion: weir.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec:\n  " + anyPods + "\n  wasm: {module: guard}\n"

func TestPolicyLint(t *testing.T) {
	tests := []struct {
		name   string
		tree   map[string]string
		args   []string
		code   int
		says   []string
		silent []string
	}{
		{name: "warnings, and a field that does not exist", tree: map[string]string{"policy.yaml": lintedPolicy}, code: 1, says: []string{
			"policy.yaml:4:3: warning: no binding among these files puts it in force [no-binding]\n |   name: linted\n | ..^\n",
			"policy.yaml:6:3: warning: a request that cannot be judged is admitted",
			"policy.yaml:7:3: warning: kind stable.example.com/v1, Kind=CronTab is not known: give its CustomResourceDefinition by --crds [unknown-kind]",
			"policy.yaml:7:3: warning: no expression reads params [unused-params]",
			`policy.yaml:11:7: warning: matches no resource that is known: "deploymentz" in groups "apps", versions "v1" [matches-nothing]`,
			`policy.yaml:13:5: warning: variable "unused" is not used [unused-variable]`,
			"policy.yaml:18:18: error: undefined field 'replica', for apps/v1, Kind=Deployment [type]\n |       object.spec.replica > 1\n | .................^\n",
			"policy.yaml:20:5: warning: never looks at the object, the request or params: it says the same of everything [constant]",
			"policy.yaml:21:5: warning: may cost ", "[cost]", "1 errors, 8 warnings\n"}},
		{name: "definitions and bindings", tree: map[string]string{"p/policy.yaml": lintedPolicy, "crds/crd.yaml": crontabCRD,
			"p/binding.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: linted, validationActions: [Deny]}\n"},
			code: 1, args: []string{"--crds", "crds"}, silent: []string{"unknown-kind", "no-binding"}},
		{name: "what a server refuses", tree: map[string]string{"a.yaml": "# a comment\n---\n" + strings.Replace(labelVAP, "has(object.metadata.labels)", `"tru && objekt.x"`, 1) +
			"---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: labels}\nspec: {policyName: labels, validationActions: [Den], colour: red}\n"}, code: 1, says: []string{
			"a.yaml:8:31: error: undeclared reference to 'tru'", "a.yaml:8:38: error: undeclared reference to 'objekt'", `a.yaml:13:54: error: unknown field "spec.colour" [unknown-field]`, "3 errors, 0 warnings"}},
		{name: "what is not valid", tree: map[string]string{"a.yaml": strings.Replace(labelVAP, "operations: [CREATE, UPDATE]", "operations: [MAKE]", 1)}, code: 1,
			says: []string{`error: Unsupported value: "MAKE"`, "[invalid]"}},
		{name: "a value of another type", tree: map[string]string{"a.yaml": strings.Replace(labelVAP, "message: labels are missing", "message: no", 1)}, code: 1,
			says: []string{"a.yaml:6:59: error: "}},
		{name: "Rego in a Policy", tree: map[string]string{"a.yaml": strings.Replace(regoPolicy, "if not input.object", "if not inptu.object", 1)}, code: 1, says: []string{"a.yaml:9:36: error: ", "[compile]"}},
		{name: "Rego beside one", tree: map[string]string{"a.yaml": labelVAP, "policy.rego": "package p\n\ndeny contains \"a\" if x\n"}, code: 1, says: []string{"policy.rego:3:22: error: "}},
		{name: "a kind that is misspelt", tree: map[string]string{"a.yaml": strings.Replace(labelVAP, "kind: ValidatingAdmissionPolicy", "kind: ValidatingAdmisionPolicy", 1), "b.yaml": strings.Replace(regoPolicy, "kind: Policy", "kind: Polcy", 1)}, code: 1,
			says: []string{`error: there is no kind "ValidatingAdmisionPolicy" in admissionregistration.k8s.io/v1`, `error: there is no kind "Polcy" in weir.dev/v1alpha1`, "[kind]"}},
		{name: "a Module whose file is not there", tree: map[string]string{"p/a.yaml": moduleAndPolicy}, says: []string{"a.yaml:4:8: warning: it was not looked at: ", "0 errors, 2 warnings"}, silent: []string{"no Module"}},
		{name: "a Module whose file is in another directory", tree: map[string]string{"p/a.yaml": moduleAndPolicy, "crds/guard.wasm": "none"}, args: []string{"--module-dir", "crds"}, code: 1,
			says: []string{"a.yaml:11:10: error: module[guard]: refused: not a wasm module"}, silent: []string{"not looked at"}},
		{name: "a binding without params", tree: map[string]string{"p/policy.yaml": lintedPolicy, "p/crd.yaml": crontabCRD,
			"p/binding.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: linted, validationActions: [Deny]}\n"},
			code: 1, says: []string{"binding.yaml:4:8: warning: the ValidatingAdmissionPolicy has a paramKind, and this binding no paramRef: params is null [no-params]"}},
		{name: "Rego that is not meant", tree: map[string]string{"a.yaml": strings.Replace(regoPolicy, "input.object", "input.objct", 1), "policy.rego": "package p\n\ndeny if input.object.x\n"},
			says: []string{"a.yaml:9:", `warning: input has no member "objct"`, "policy.rego:3:1: warning: deny is a boolean", "[rego]"}},
		{name: "clean", tree: map[string]string{"policy.yaml": labelVAP, "binding.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: labels, validationActions: [Deny]}\n",
			"cases/a.yaml": podBase, "values.yaml": "a: 1\n"}, silent: []string{"error", "warning"}},
		{name: "strict", tree: map[string]string{"a.yaml": labelVAP}, args: []string{"--strict"}, code: 1, says: []string{"error: no binding", "1 errors, 0 warnings"}},
		{name: "a binding of nothing", tree: map[string]string{"a.yaml": "apiVersion: weir.dev/v1alpha1\nkind: PolicyBinding\nmetadata: {name: a}\nspec: {policyName: gone, validationActions: [Deny], mode: Enforce}\n"}, says: []string{`a.yaml:4:8: warning: there is no Policy "gone"`}},
		{name: "a module that is not there", tree: map[string]string{"a.yaml": "apiVersion: weir.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec:\n  " + anyPods + "\n  wasm: {module: guard}\n"}, says: []string{"a.yaml:6:10: warning: ", `no Module "guard" is given`}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			root := files(t, tc.tree)
			args := []string{"policy", "lint", root}
			for _, a := range tc.args {
				if a == "crds" {
					a = filepath.Join(root, a)
				}
				args = append(args, a)
			}
			if _, err := os.Stat(filepath.Join(root, "p")); err == nil {
				args[2] = filepath.Join(root, "p")
			}
			out, code, err := weir(t, args...)
			if code != tc.code || err != nil {
				t.Errorf("code %d, %v", code, err)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			for _, not := range tc.silent {
				if strings.Contains(out, not) {
					t.Errorf("it says %q", not)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
			out, _, err = weir(t, append(args, "-o", "json")...)
			var got struct {
				Findings         []offline.Finding
				Errors, Warnings int
			}
			if jsonErr := json.Unmarshal([]byte(out), &got); err != nil || jsonErr != nil || len(got.Findings) != got.Errors+got.Warnings || (got.Errors > 0) != (tc.code == 1) {
				t.Errorf("json: %v, %v: %s", err, jsonErr, out)
			}
		})
	}
	for name, args := range map[string][]string{"no file": nil, "a file that is not there": {"none.yaml"}, "a directory without objects": {t.TempDir()}} {
		if _, code, err := weir(t, append([]string{"policy", "lint"}, args...)...); code != 2 || err == nil {
			t.Errorf("%s: code %d, %v", name, code, err)
		}
	}
}

// TestPolicyLintLibrary: what the library has is without an error.
func TestPolicyLintLibrary(t *testing.T) {
	out, code, err := weir(t, "policy", "lint", policyLibrary)
	if code != 0 || err != nil || strings.Contains(out, "[type]") || strings.Contains(out, "[unused-variable]") {
		t.Errorf("code %d, %v\n%s", code, err, out)
	}
}
