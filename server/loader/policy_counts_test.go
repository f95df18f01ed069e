package loader_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// evaluated returns the condition that tells what a server has counted of a policy.
func evaluated(obj *unstructured.Unstructured) (found metav1.Condition) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range list {
		var c metav1.Condition
		if fields, ok := item.(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) == nil && strings.HasPrefix(c.Type, "evaluated.weir.dev/") {
			found = c
		}
	}
	return found
}

// What a policy of admissionregistration.k8s.io has done is in its status, as of a Policy it is in that of its bindings.
func TestCountsOfAdmissionPolicies(t *testing.T) {
	f := start(t)
	mutating := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}
	binding := mutating
	binding.Resource = "mutatingadmissionpolicybindings"
	constraints := demanding("").Object["spec"].(map[string]any)["matchConstraints"]
	f.put(t, validatingPolicies, policyOn("judges", "", "configmaps", map[string]any{"expression": "object.metadata.name != 'probe' || int(object.data.v) < 5"}))
	f.put(t, validatingBindings, object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "judges", map[string]any{"policyName": "judges", "validationActions": []any{"Deny"}}))
	f.put(t, mutating, object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "changes", map[string]any{
		"matchConstraints": constraints, "reinvocationPolicy": "Never",
		"mutations": []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": "object.data.v == '1' ? [JSONPatch{op: 'add', path: '/data/w', value: 'x'}] : []"}}}}))
	f.put(t, binding, object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "changes", map[string]any{"policyName": "changes"}))
	for value, admitted := range map[string]bool{"1": true, "2": true, "7": false, "x": false} {
		if _, err := f.write(t, value); (err == nil) != admitted {
			t.Errorf("%s: %v", value, err)
		}
	}
	if err := f.Restart(t.Context()); err != nil { // a server that stops tells what it has counted
		t.Fatal(err)
	}
	client := connect(t, f.Environment)
	for _, tc := range []struct {
		resource schema.GroupVersionResource
		name     string
		want     []string
	}{
		{validatingPolicies, "judges", []string{": allowed 2, denied 1, warned 0, changed 0, errors 1; took p50 ", ", p99 ", ", worst ", "; last error at ", ": expression 'object.metadata.name != 'probe' || int(object.data.v) < 5' resulted in error: "}},
		{mutating, "changes", []string{": allowed 3, denied 0, warned 0, changed 1, errors 0; took p50 "}},
	} {
		got := f.until(t, client.Resource(tc.resource), tc.name, func(obj *unstructured.Unstructured) bool { return evaluated(obj).Message != "" })
		c := evaluated(got)
		if c.Status != metav1.ConditionTrue || c.Reason != "Counted" || c.ObservedGeneration != got.GetGeneration() {
			t.Errorf("%s: %+v", tc.name, c)
		}
		for _, want := range tc.want {
			if !strings.Contains(c.Message, want) {
				t.Errorf("%s: %q lacks %q", tc.name, c.Message, want)
			}
		}
	}
}

// What a MutatingAdmissionPolicy sets is compared with the kinds that it changes, and so is what it reads.
func TestTypesOfMutationsAreChecked(t *testing.T) {
	f := start(t)
	mutating := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}
	f.put(t, crds, thingsOf("integer"))
	f.put(t, mutating, object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "changes", map[string]any{
		"matchConstraints": policyOn("", "example.com", "things").Object["spec"].(map[string]any)["matchConstraints"], "reinvocationPolicy": "Never",
		"matchConditions": []any{map[string]any{"name": "c", "expression": "object.spec.cont == 1"}},
		"variables":       []any{map[string]any{"name": "v", "expression": "object.spec.nme"}},
		"mutations": []any{
			map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": "Object{spec: Object.spec{cuont: 1}}"}},
			map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": "Object{spec: Object.spec{count: 'x'}}"}},
			map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{count: 1}}"}},
			map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": "[JSONPatch{op: 'add', path: '/spec/count', value: object.spec.size}]"}},
		}}))
	got := f.until(t, f.client.Resource(mutating), "changes", func(obj *unstructured.Unstructured) bool {
		fields, _ := warningsOf(obj)
		return len(fields) > 0 && condition(obj, "Ready").Status == metav1.ConditionTrue
	})
	fields, texts := warningsOf(got)
	if want := []string{"spec.mutations[0].applyConfiguration.expression", "spec.mutations[1].applyConfiguration.expression", "spec.mutations[3].jsonPatch.expression",
		"spec.matchConditions[0].expression", "spec.variables[0].expression"}; !slices.Equal(fields, want) {
		t.Fatalf("got %q, want %q", fields, want)
	}
	for i, want := range []string{
		"example.com/v1, Kind=Thing: ERROR: <input>:1:31: undefined field 'cuont'\n | Object{spec: Object.spec{cuont: 1}}\n | ..............................^\n",
		"example.com/v1, Kind=Thing: ERROR: <input>:1:31: expected type of field 'count' is 'int' but provided type is 'string'\n | Object{spec: Object.spec{count: 'x'}}\n | ..............................^\n",
		"example.com/v1, Kind=Thing: ERROR: <input>:1:62: undefined field 'size'\n | [JSONPatch{op: 'add', path: '/spec/count', value: object.spec.size}]\n | .............................................................^\n",
	} {
		if texts[i] != want {
			t.Errorf("got  %q\nwant %q", texts[i], want)
		}
	}
}
