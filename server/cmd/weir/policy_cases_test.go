package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir.dev/weir/sdk/build"
)

const policyLibrary = "../../../policies/library"

// files writes a tree and returns its root.
func files(t *testing.T, tree map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range tree {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestPolicyTestLibrary: all that policies/library has passes, on each engine that it is written for.
func TestPolicyTestLibrary(t *testing.T) {
	args := []string{"policy", "test", policyLibrary, "--cache-dir", t.TempDir()}
	if missing := build.Missing(t.Context(), build.C); missing != nil || testing.Short() {
		args = append(args, "--engine", "cel,rego")
	}
	out, code, err := weir(t, args...)
	if err != nil || code != 0 {
		t.Errorf("code %d, %v\n%s", code, err, out)
	}
	entries, err := os.ReadDir(policyLibrary)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !regexp.MustCompile(`(?m)^ok  \t\S*`+e.Name()+`\t\d+\.\d\ds\t\d+ cases$`).MatchString(out) {
			t.Errorf("%s is not said to be ok:\n%s", e.Name(), out)
		}
	}
}

const (
	anyPods    = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}`
	podBase    = "base: {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, spec: {containers: [{name: web, image: web}]}}\ncases:\n"
	labelVAP   = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: labels}\nspec:\n  " + anyPods + "\n  validations: [{expression: has(object.metadata.labels), message: labels are missing}]\n"
	labelMAP   = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: label}\nspec:\n  reinvocationPolicy: Never\n  " + anyPods + "\n  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {\"team\": \"a\"}}}'}}]\n"
	regoPolicy = "apiVersion: weir.dev/v1alpha1\nkind: Policy\nmetadata: {name: rego}\nspec:\n  " + anyPods + "\n  rego:\n    source: |\n      package p\n      deny contains \"no labels\" if not input.object.metadata.labels\n"
	crontabCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {image: {type: string}}}}}}
`
)

func TestPolicyTest(t *testing.T) {
	tests := []struct {
		name  string
		tree  map[string]string
		args  []string
		code  int
		says  []string // on standard output
		error string
	}{
		{name: "passes", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: none, expect: denied, messages: [labels are missing]}\n- {name: some, change: {metadata: {labels: {a: b}}}, expect: allowed}\n"},
			says: []string{"ok  \t", "2 cases"}},
		{name: "verbose, with the cost", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: none, expect: denied}\n"}, args: []string{"-v"},
			says: []string{"--- PASS: a/none (0.0", "of CEL"}},
		{name: "fails with the place and a diff", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: none, expect: denied, messages: [nothing]}\n- {name: x, expect: allowed}\n"}, code: 1,
			says: []string{"--- FAIL: a/none (", "cases/a.yaml:3:\n        messages differ (- want, + got):\n        - nothing\n        + labels are missing\n",
				"cases/a.yaml:4:\n        request is denied, want allowed: [\"labels are missing\"]", "FAIL\t", "2 of 2 cases"}},
		{name: "what is changed", tree: map[string]string{"d/policy.yaml": labelMAP, "d/cases/a.yaml": podBase + "- {name: labelled, expect: allowed, patchedChange: {metadata: {labels: {team: a}}}}\n"}, says: []string{"1 cases"}},
		{name: "what is changed differs", tree: map[string]string{"d/policy.yaml": labelMAP, "d/cases/a.yaml": podBase + "- {name: labelled, expect: allowed, patchedChange: {metadata: {labels: {team: b}}}}\n"}, code: 1,
			says: []string{"object differs (- want, + got):\n", "        -     team: b\n        +     team: a\n"}},
		{name: "a mutator before a validator", tree: map[string]string{"d/a.yaml": labelMAP + "---\n" + labelVAP, "d/cases/a.yaml": podBase + "- {name: labelled, expect: allowed}\n"}, says: []string{"1 cases"}},
		{name: "Rego", tree: map[string]string{"d/policy.yaml": regoPolicy, "d/cases/a.yaml": podBase + "- {name: none, expect: denied, messages: [no labels]}\n"}, args: []string{"-v"}, says: []string{"steps", "1 cases"}},
		{name: "nothing matches", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: deleted, operation: DELETE, expect: unmatched}\n"}, says: []string{"1 cases"}},
		{name: "allowed wants a policy that was asked", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: deleted, operation: DELETE, expect: allowed}\n"}, code: 1,
			says: []string{"request is unmatched, want allowed"}},
		{name: "a binding that selects a namespace", tree: map[string]string{"d/policy.yaml": labelVAP,
			"d/binding.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: labels}\nspec: {policyName: labels, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {strict: 'yes'}}}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: strict, labels: {strict: 'yes'}}\n",
			"d/cases/a.yaml": podBase + "- {name: elsewhere, expect: unmatched}\n- {name: strict, change: {metadata: {namespace: strict}}, expect: denied}\n- {name: told, namespaceObject: {metadata: {name: default, labels: {strict: 'yes'}}}, expect: denied}\n"}, says: []string{"3 cases"}},
		{name: "a binding that warns", tree: map[string]string{"d/policy.yaml": labelVAP,
			"d/binding.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: labels}\nspec: {policyName: labels, validationActions: [Warn]}\n",
			"d/cases/a.yaml": podBase + "- {name: warned, expect: allowed, warnings: [\"Validation failed for ValidatingAdmissionPolicy 'labels' with binding 'labels': labels are missing\"]}\n"}, says: []string{"1 cases"}},
		{name: "who may", tree: map[string]string{"d/policy.yaml": strings.Replace(labelVAP, "has(object.metadata.labels)", `authorizer.group("x.y").resource("quotas").name("big").check("use").allowed()`, 1),
			"d/cases/a.yaml": podBase + "- {name: nobody, expect: denied}\n- {name: some, allow: [{verb: use, group: x.y, resource: quotas, name: big}], expect: allowed}\n- {name: others, allow: [{verb: use, name: small}], expect: denied}\n"}, says: []string{"3 cases"}},
		{name: "a field of allow that does not exist", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: a, allow: [{verbs: use}], expect: denied}\n"}, code: 1, says: []string{`case "a": allow: `, "verbs"}},
		{name: "a custom resource", tree: map[string]string{"d/crd.yaml": crontabCRD,
			"d/policy.yaml":  "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: images}\nspec:\n  matchConstraints: {resourceRules: [{apiGroups: [stable.example.com], apiVersions: [v1], operations: [CREATE], resources: [crontabs]}]}\n  validations: [{expression: object.spec.image != ''}]\n",
			"d/cases/a.yaml": "cases: [{name: empty, object: {apiVersion: stable.example.com/v1, kind: CronTab, metadata: {name: a}, spec: {image: ''}}, expect: denied}]"}, says: []string{"1 cases"}},
		{name: "a case that cannot run", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": "cases: [{name: unknown, object: {apiVersion: a.b/v1, kind: C, metadata: {name: a}}, expect: allowed}]"}, code: 1,
			says: []string{"--- FAIL: a/unknown", "cannot be run: kind a.b/v1, Kind=C is not known"}},
		{name: "a policy that does not compile", tree: map[string]string{"d/policy.yaml": strings.Replace(labelVAP, "has(object", "has(objekt", 1), "d/cases/a.yaml": podBase + "- {name: none, expect: denied}\n"}, code: 1,
			says: []string{"policy.yaml: ValidatingAdmissionPolicy \"labels\"", "undeclared reference to 'objekt'", "^", "FAIL\t", "[cannot be used]"}},
		{name: "a case with a field that does not exist", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: none, expects: denied}\n"}, code: 1, says: []string{`unknown field "expects"`, "[cannot be used]"}},
		{name: "a binding of nothing", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: none, expect: denied}\n",
			"d/binding.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: labels}\nspec: {policyName: label, validationActions: [Deny]}\n"}, code: 1, says: []string{`it binds the ValidatingAdmissionPolicy "label", which is not there`}},
		{name: "no policy", tree: map[string]string{"d/cases/a.yaml": podBase + "- {name: none, expect: denied}\n"}, code: 1, says: []string{"no policy and no Strategy"}},
		{name: "an empty directory", tree: map[string]string{"d/policy.yaml": labelVAP}, code: 2, error: "no cases: neither it nor a directory below it"},
		{name: "a directory of cases without any", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/README.md": ""}, code: 1, says: []string{"no cases in d/cases"}},
		{name: "no such case", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: none, expect: denied}\n"}, args: []string{"--run", "nothing"}, code: 2, error: `no case was run: none match --run "nothing"`, says: []string{"?   \t", "[no cases to run]"}},
		{name: "no such engine", tree: map[string]string{"d/policy.yaml": labelVAP, "d/cases/a.yaml": podBase + "- {name: none, expect: denied}\n"}, args: []string{"--engine", "lua"}, code: 2, error: `--engine "lua": there are cel, rego and wasm`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out, code, err := weir(t, append([]string{"policy", "test", files(t, tc.tree)}, tc.args...)...)
			if code != tc.code || (err != nil) != (tc.error != "") || err != nil && !strings.Contains(err.Error(), tc.error) {
				t.Errorf("code %d, %v", code, err)
			}
			for _, want := range tc.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

func TestPolicyTestJUnit(t *testing.T) {
	root := files(t, map[string]string{
		"good/policy.yaml": labelVAP, "good/cases/a.yaml": podBase + "- {name: none, expect: denied}\n- {name: wrong, expect: allowed}\n",
		"bad/policy.yaml": "kind: ValidatingAdmissionPolicy\n", "bad/cases/a.yaml": podBase + "- {name: none, expect: denied}\n",
	})
	report := filepath.Join(root, "report.xml")
	if _, code, err := weir(t, "policy", "test", root, "--junit", report); code != 1 || err != nil {
		t.Fatalf("code %d, %v", code, err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var got junitReport
	if err := xml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 3 || got.Failures != 1 || got.Errors != 1 || len(got.Suites) != 2 || got.Suites[0].Cases[0].Error == nil {
		t.Fatalf("got %s", text)
	}
	if f := got.Suites[1].Cases[1].Failure; f == nil || !strings.Contains(f.Text, "cases/a.yaml:4") || !strings.Contains(f.Message, "request is denied, want allowed") {
		t.Errorf("got %s", text)
	}
}

// TestPolicyBench: costs are exact, and the same each time.
func TestPolicyBench(t *testing.T) {
	var costs [2][]uint64
	for i := range costs {
		out, code, err := weir(t, "policy", "bench", policyLibrary+"/replicas/cases/replicas.yaml", "--engine", "cel,rego", "--run", "too (few|many)$", "--time", "1ms", "-o", "json")
		if code != 0 || err != nil {
			t.Fatalf("code %d, %v", code, err)
		}
		var all []policyMeasurement
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			costs[i] = append(costs[i], m.Cost)
			if m.Judgements < 1 || m.MedianMicros <= 0 || m.P99Micros < m.MedianMicros || m.Cost == 0 || m.Answer != "denied" || m.Allocations <= 0 {
				t.Errorf("got %+v", m)
			}
		}
	}
	if len(costs[0]) != 4 || costs[0][0] != costs[1][0] || costs[0][2] != costs[1][2] {
		t.Errorf("costs %v", costs)
	}
	if _, code, err := weir(t, "policy", "bench", policyLibrary+"/replicas", "--engine", "cel", "--run", "nothing"); code != 2 || err == nil {
		t.Errorf("code %d, %v for no case at all", code, err)
	}
	out, _, err := weir(t, "policy", "bench", policyLibrary+"/required-labels/policy.yaml", "--engine", "cel", "--time", "1ms")
	if err != nil || !strings.Contains(out, "labels/other params") || !strings.Contains(out, "of CEL") {
		t.Errorf("%v\n%s", err, out)
	}
}
