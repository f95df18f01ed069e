package loader_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What `kubectl get` shows of policies and their bindings, and with -o wide.
func TestPolicyColumns(t *testing.T) {
	const admissionV1 = "admissionregistration.k8s.io/v1"
	f := start(t)
	validating := policyOn("judges", "", "configmaps", map[string]any{"expression": "object.metadata.name != 'probe' || object.data.v != params.data.v"},
		map[string]any{"expression": "!has(object.datta)"})
	limited := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	limit := map[string]any{"name": "limit", "namespace": "default", "parameterNotFoundAction": "Allow"}
	validating.Object["spec"].(map[string]any)["paramKind"] = limited
	if _, err := f.client.Resource(configMaps).Namespace("default").Create(t.Context(), configMap("limit", "refused"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		gvr schema.GroupVersionResource
		obj *unstructured.Unstructured
	}{
		{validatingPolicies, validating},
		{validatingBindings, object(admissionV1, "ValidatingAdmissionPolicyBinding", "judges", map[string]any{"policyName": "judges", "validationActions": []any{"Warn", "Audit"}, "paramRef": limit})},
		{mutatingPolicies, object(admissionV1, "MutatingAdmissionPolicy", "changes", map[string]any{"matchConstraints": onMaps(), "reinvocationPolicy": "IfNeeded", "failurePolicy": "Ignore",
			"mutations": []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": "[JSONPatch{op: 'add', path: '/data/w', value: 'x'}]"}}}})},
		{mutatingBindings, object(admissionV1, "MutatingAdmissionPolicyBinding", "changes", map[string]any{"policyName": "changes"})},
		{weirPolicies, weirPolicy("rules", "rego", map[string]any{"source": "package p\n\ndeny contains \"no\" if input.object.data.v == \"refused\"\n"})},
		{weirPolicies, weirPolicy("calls", "wasm", map[string]any{"module": "absent"})},
		{weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "enforced", map[string]any{"policyName": "rules"})},
		{weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "watched", map[string]any{"policyName": "rules", "mode": "Shadow", "percent": int64(5)})},
		{weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "warned", map[string]any{"policyName": "rules", "validationActions": []any{"Warn"}})},
		{weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "of-another", map[string]any{"policyName": "absent"})},
	} {
		f.put(t, w.gvr, w.obj)
	}
	for v, admitted := range map[string]bool{"one": true, "two": true, "refused": false} {
		if _, err := f.write(t, v); (err == nil) != admitted {
			t.Fatalf("%s: %v", v, err)
		}
	}
	if err := f.Restart(t.Context()); err != nil { // a server that stops tells what it has counted
		t.Fatal(err)
	}
	f.client = connect(t, f.Environment)
	for _, tc := range []struct {
		gvr  schema.GroupVersionResource
		want []string // what is shown, and what is with -o wide
	}{
		{validatingPolicies, []string{`
NAME|VALIDATIONS|PARAMKIND|AGE
judges|2|v1/ConfigMap|#`, `
NAME|VALIDATIONS|PARAMKIND|AGE|READY|WARNINGS|FAILURE-POLICY|EVALUATED
judges|2|v1/ConfigMap|#|True|1|Fail|since #: allowed 2, denied 0, warned 1, changed 0, errors 0; took p50 #, p99 #, worst #`}},
		{validatingBindings, []string{`
NAME|POLICYNAME|PARAMREF|AGE
judges|judges|default/limit|#`, `
NAME|POLICYNAME|PARAMREF|AGE|ACTIONS
judges|judges|default/limit|#|Warn,Audit`}},
		{mutatingPolicies, []string{`
NAME|MUTATIONS|PARAMKIND|AGE
changes|1|<unset>|#`, `
NAME|MUTATIONS|PARAMKIND|AGE|READY|WARNINGS|FAILURE-POLICY|REINVOCATION|EVALUATED
changes|1|<unset>|#|True|0|Ignore|IfNeeded|since #: allowed 0, denied 0, warned 0, changed 3, errors 0; took p50 #, p99 #, worst #`}},
		{mutatingBindings, []string{`
NAME|POLICYNAME|PARAMREF|AGE
changes|changes|<unset>|#`, `
NAME|POLICYNAME|PARAMREF|AGE
changes|changes|<unset>|#`}},
		{weirPolicies, []string{`
NAME|READY|REASON|MODULE|AGE
calls|False|Refused|absent|#
rules|True|InForce|<rego>|#`, `
NAME|READY|REASON|MODULE|MESSAGE|DIGEST|AGE
calls|False|Refused|absent|no Module "absent" exists|<none>|#
rules|True|InForce|<rego>||<none>|#`}},
		{weirBindings, []string{`
NAME|POLICY|READY|MODE|DENIED|SHADOW-DENIED|FAILED|WARNED|AGE
enforced|rules|True|Enforce|1|0|0|0|#
of-another|absent|False|Enforce|0|0|0|0|#
warned|rules|True|Enforce|0|0|0|1|#
watched|rules|True|Shadow|0|1|0|0|#`, `
NAME|POLICY|READY|MODE|DENIED|SHADOW-DENIED|FAILED|WARNED|REASON|PERCENT|ALLOWED|WORST|LAST-ERROR|AGE
enforced|rules|True|Enforce|1|0|0|0|InForce|100|2|#||#
of-another|absent|False|Enforce|0|0|0|0|PolicyNotFound|100|0|||#
warned|rules|True|Enforce|0|0|0|1|InForce|100|2|#||#
watched|rules|True|Shadow|0|1|0|0|InForce|5|2|#||#`}},
	} {
		for i, wide := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s wide=%v", tc.gvr.Resource, wide), func(t *testing.T) {
				eventually(t, func() (bool, any) { // a status is written soon after
					got := f.table(t, tc.gvr, wide)
					return got == strings.TrimPrefix(tc.want[i], "\n"), got
				})
			})
		}
	}
}

// measured are points in time and what was measured, which differ from run to run.
var measured = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z|[\d.]+(ns|µs|ms|s)\b`)

// table is what `kubectl get` shows of a resource: the names of the columns, and a line for each object, cells apart by
// bars. wide: also those of -o wide. What was measured is a #.
func (f *fixture) table(t *testing.T, gvr schema.GroupVersionResource, wide bool) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+"/apis/"+gvr.Group+"/"+gvr.Version+"/"+gvr.Resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	resp, err := f.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil || table.Kind != "Table" {
		t.Fatalf("%s: %v: %s", gvr.Resource, err, raw)
	}
	shown := func(cell func(i int, c *metav1.TableColumnDefinition) any) string {
		var cells []string
		for i := range table.ColumnDefinitions {
			if c := &table.ColumnDefinitions[i]; wide || c.Priority == 0 {
				cells = append(cells, fmt.Sprint(cell(i, c)))
			}
		}
		return strings.Join(cells, "|")
	}
	lines := []string{shown(func(_ int, c *metav1.TableColumnDefinition) any { return strings.ToUpper(c.Name) })}
	for _, row := range table.Rows {
		lines = append(lines, shown(func(i int, c *metav1.TableColumnDefinition) any {
			cell := fmt.Sprint(row.Cells[i])
			switch {
			case c.Name == "Age", c.Name == "Worst" && cell != "":
				return regexp.MustCompile(`\d[\dhms]*`).ReplaceAllString(cell, "#")
			case c.Name == "Evaluated":
				return measured.ReplaceAllString(cell, "#")
			}
			return cell
		}))
	}
	return strings.Join(lines, "\n")
}
