package loader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// thingsOf defines Things whose spec.count is of a type.
func thingsOf(kind string) *unstructured.Unstructured {
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com", map[string]any{
		"group": "example.com", "scope": "Namespaced",
		"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": map[string]any{"count": map[string]any{"type": kind}}}}}}}}})
}

// policyOn is a policy on a resource with some validations.
func policyOn(name, group, resource string, validations ...map[string]any) *unstructured.Unstructured {
	list := make([]any, len(validations))
	for i, v := range validations {
		list[i] = v
	}
	return object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", name, map[string]any{
		"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
			"apiGroups": []any{group}, "apiVersions": []any{"v1"}, "operations": []any{"*"}, "resources": []any{resource}}}},
		"validations": list})
}

func warningsOf(obj *unstructured.Unstructured) (fields, texts []string) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "typeChecking", "expressionWarnings")
	for _, item := range list {
		w := item.(map[string]any)
		fields, texts = append(fields, fmt.Sprint(w["fieldRef"])), append(texts, fmt.Sprint(w["warning"]))
	}
	return fields, texts
}

func TestTypesAreCheckedWhenKindsChange(t *testing.T) {
	f := start(t)
	policy := policyOn("things", "example.com", "things",
		map[string]any{"expression": "object.spec.count.size() > 1"},
		map[string]any{"expression": "has(object.spec.count) && params.dat.x == 'y'", "messageExpression": "'no ' + object.spec.nme"})
	policy.Object["spec"].(map[string]any)["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	f.put(t, validatingPolicies, policy)
	checked := func(is func(fields []string) bool) (texts []string) {
		f.until(t, f.client.Resource(validatingPolicies), "things", func(obj *unstructured.Unstructured) bool {
			observed, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
			var fields []string
			fields, texts = warningsOf(obj)
			_, known, _ := unstructured.NestedMap(obj.Object, "status", "typeChecking")
			return known && observed == obj.GetGeneration() && is(fields)
		})
		return texts
	}
	checked(func(fields []string) bool { return len(fields) == 0 }) // there are no Things yet
	f.put(t, crds, thingsOf("integer"))
	texts := checked(func(fields []string) bool {
		return slices.Equal(fields, []string{"spec.validations[0].expression", "spec.validations[1].expression", "spec.validations[1].messageExpression"})
	})
	for i, want := range []string{
		"example.com/v1, Kind=Thing: ERROR: <input>:1:23: found no matching overload for 'size' applied to 'int.()'\n | object.spec.count.size() > 1\n | ......................^\n",
		"example.com/v1, Kind=Thing: ERROR: <input>:1:33: undefined field 'dat'\n | has(object.spec.count) && params.dat.x == 'y'\n | ................................^\n",
		"example.com/v1, Kind=Thing: ERROR: <input>:1:20: undefined field 'nme'\n | 'no ' + object.spec.nme\n | ...................^\n",
	} {
		if texts[i] != want {
			t.Errorf("got  %q\nwant %q", texts[i], want)
		}
	}
	f.put(t, crds, thingsOf("string"))
	checked(func(fields []string) bool {
		return slices.Equal(fields, []string{"spec.validations[1].expression", "spec.validations[1].messageExpression"})
	})
	if err := f.client.Resource(crds).Delete(t.Context(), "things.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	checked(func(fields []string) bool { return len(fields) == 0 })
}

// What a request or a namespace cannot have is refused when the policy is written.
func TestMisspeltFieldsOfARequestAreRefused(t *testing.T) {
	f := start(t)
	for text, want := range map[string]string{
		"request.operaton == 'CREATE'":           "undefined field 'operaton'",
		"namespaceObject.metadata.nam == 'x'":    "undefined field 'nam'",
		"request.userInfo.username.size() > 'a'": "found no matching overload",
	} {
		_, err := f.client.Resource(validatingPolicies).Create(t.Context(), policyOn("typo", "", "configmaps", map[string]any{"expression": text}), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "spec.validations[0].expression") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	// The type of a field that is known is that of a message.
	f.put(t, validatingPolicies, policyOn("demanding", "", "configmaps", map[string]any{"expression": "request.name != 'probe'", "messageExpression": "request.userInfo.username"}))
	f.put(t, validatingBindings, bound())
	if _, err := f.write(t, "x"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "denied request: weir-admin") {
		t.Errorf("got %v", err)
	}
}

func TestBindingSaysWhetherItIsInForce(t *testing.T) {
	f := start(t)
	ready := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		f.until(t, f.client.Resource(weirBindings), "b", func(obj *unstructured.Unstructured) bool {
			c := condition(obj, "Ready")
			return c.Status == status && c.Reason == reason
		})
	}
	f.put(t, weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "b", map[string]any{"policyName": "p"}))
	ready(metav1.ConditionFalse, "PolicyNotFound")
	spec := map[string]any{
		"matchConstraints": demanding("").Object["spec"].(map[string]any)["matchConstraints"],
		"rego":             map[string]any{"source": "package p\n\ndeny contains \"no x\" if input.object.data.v == \"x\"\n"}}
	f.put(t, weirPolicies, object("weir.dev/v1alpha1", "Policy", "p", spec))
	ready(metav1.ConditionTrue, "InForce")
	if _, err := f.write(t, "x"); !apierrors.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	if err := f.client.Resource(weirPolicies).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ready(metav1.ConditionFalse, "PolicyNotFound")
	delete(spec, "rego")
	spec["wasm"] = map[string]any{"module": "there-is-none"}
	f.put(t, weirPolicies, object("weir.dev/v1alpha1", "Policy", "p", spec))
	ready(metav1.ConditionFalse, "PolicyNotReady")

	for field, value := range map[string]any{"mode": "shadow", "percent": int64(101), "validationActions": []any{"Refuse"}} {
		_, err := f.client.Resource(weirBindings).Create(t.Context(), object("weir.dev/v1alpha1", "PolicyBinding", "wrong", map[string]any{"policyName": "p", field: value}), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// The counts that a server has not told yet are told when it stops.
func TestCountsOutliveTheServer(t *testing.T) {
	f := start(t)
	f.put(t, weirPolicies, object("weir.dev/v1alpha1", "Policy", "p", map[string]any{
		"matchConstraints": demanding("").Object["spec"].(map[string]any)["matchConstraints"],
		"rego":             map[string]any{"source": "package p\n\ndeny contains \"no x\" if input.object.data.v == \"x\"\n"}}))
	f.put(t, weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "b", map[string]any{"policyName": "p", "mode": "Shadow"}))
	for range 3 {
		if _, err := f.write(t, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.until(t, connect(t, f.Environment).Resource(weirBindings), "b", func(obj *unstructured.Unstructured) bool {
		list, _, _ := unstructured.NestedSlice(obj.Object, "status", "servers")
		for _, item := range list {
			counts := item.(map[string]any)
			samples, _ := counts["samples"].([]any)
			if counts["shadowDenied"] == int64(3) && len(samples) == 3 {
				return true
			}
		}
		return false
	})
}

// A denial that only a warning tells of is counted as such.
func TestWarningsAreNoDenials(t *testing.T) {
	f := start(t)
	f.put(t, weirPolicies, object("weir.dev/v1alpha1", "Policy", "p", map[string]any{
		"matchConstraints": demanding("").Object["spec"].(map[string]any)["matchConstraints"],
		"rego":             map[string]any{"source": "package p\n\ndeny contains \"no x\" if input.object.data.v == \"x\"\n"}}))
	f.put(t, weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "b", map[string]any{"policyName": "p", "validationActions": []any{"Warn"}}))
	if _, err := f.write(t, "x"); err != nil {
		t.Fatal(err)
	}
	if err := f.Restart(t.Context()); err != nil { // a server that stops tells what it has counted
		t.Fatal(err)
	}
	f.until(t, connect(t, f.Environment).Resource(weirBindings), "b", func(obj *unstructured.Unstructured) bool {
		list, _, _ := unstructured.NestedSlice(obj.Object, "status", "servers")
		for _, item := range list {
			if counts := item.(map[string]any); counts["warned"] == int64(1) && counts["denied"] == nil {
				return true
			}
		}
		return false
	})
}

// v1beta1 is another name for what is stored as v1.
func TestPoliciesInV1beta1(t *testing.T) {
	f := start(t)
	beta := func(gvr schema.GroupVersionResource) schema.GroupVersionResource {
		gvr.Version = "v1beta1"
		return gvr
	}
	policy, binding := demanding("x"), bound()
	for _, obj := range []*unstructured.Unstructured{policy, binding} {
		obj.SetAPIVersion("admissionregistration.k8s.io/v1beta1")
	}
	if made := f.put(t, beta(validatingPolicies), policy); made.GetAPIVersion() != "admissionregistration.k8s.io/v1beta1" {
		t.Errorf("made as %s", made.GetAPIVersion())
	}
	f.put(t, beta(validatingBindings), binding)
	if _, err := f.write(t, "y"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "v must be x") {
		t.Errorf("got %v", err)
	}
	got, err := f.client.Resource(validatingPolicies).Get(t.Context(), "demanding", metav1.GetOptions{})
	if err != nil || got.GetAPIVersion() != "admissionregistration.k8s.io/v1" {
		t.Errorf("got %v, %v", got, err)
	}
	// One that is changed in v1 is changed in v1beta1.
	f.put(t, validatingPolicies, demanding("z"))
	list, err := f.client.Resource(beta(validatingPolicies)).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || !strings.Contains(fmt.Sprint(list.Items[0].Object["spec"]), "v must be z") || list.Items[0].GetAPIVersion() != "admissionregistration.k8s.io/v1beta1" {
		t.Errorf("got %v, %v", list, err)
	}
}

// What is no Policy at all is the client's fault, and each fault is told once.
func TestFaultyPoliciesAreRefused(t *testing.T) {
	f := start(t)
	match := demanding("").Object["spec"].(map[string]any)["matchConstraints"]
	policy := func(name, bundle string) *unstructured.Unstructured {
		rego := map[string]any{"source": "package p\n\ndeny contains \"no\" if false\n"}
		if bundle != "" {
			rego = map[string]any{"bundle": bundle}
		}
		return object("weir.dev/v1alpha1", "Policy", name, map[string]any{"matchConstraints": match, "rego": rego})
	}
	faulty := func(err error) bool {
		return apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "not a Policy: illegal base64 data")
	}
	if _, err := f.client.Resource(weirPolicies).Create(t.Context(), policy("p", "hello!"), metav1.CreateOptions{}); !faulty(err) {
		t.Errorf("create: %v", err)
	}
	f.put(t, weirPolicies, policy("p", ""))
	patch := []byte(`{"spec":{"rego":{"source":null,"bundle":"hello!"}}}`)
	if _, err := f.client.Resource(weirPolicies).Patch(t.Context(), "p", types.MergePatchType, patch, metav1.PatchOptions{}); !faulty(err) {
		t.Errorf("patch: %v", err)
	}
	misspelt := demanding("x")
	rule := misspelt.Object["spec"].(map[string]any)["matchConstraints"].(map[string]any)["resourceRules"].([]any)[0].(map[string]any)
	rule["operations"] = []any{"CREAT"}
	for gvr, obj := range map[schema.GroupVersionResource]*unstructured.Unstructured{
		validatingPolicies: misspelt,
		weirPolicies: object("weir.dev/v1alpha1", "Policy", "q", map[string]any{"matchConstraints": misspelt.Object["spec"].(map[string]any)["matchConstraints"],
			"rego": map[string]any{"source": "package p\n\ndeny contains \"no\" if false\n"}}),
	} {
		_, err := f.client.Resource(gvr).Create(t.Context(), obj, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || strings.Count(err.Error(), "operations[0]") != 1 {
			t.Errorf("%s: %v", gvr.Resource, err)
		}
	}
}
