package loader_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	validatingPolicies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	validatingBindings = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

// demanding is a policy that only lets ConfigMaps pass whose data.v has a value.
func demanding(v string) *unstructured.Unstructured {
	return object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "demanding", map[string]any{
		"failurePolicy": "Fail",
		"matchConstraints": map[string]any{
			"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"}}}},
		"validations": []any{map[string]any{"expression": fmt.Sprintf("object.data.v == %q", v), "message": "v must be " + v}},
	})
}

func bound() *unstructured.Unstructured {
	return object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "demanding",
		map[string]any{"policyName": "demanding", "validationActions": []any{"Deny"}})
}

// Contract 4 for policies and bindings.
func TestPolicyIsInForceWhenItIsWritten(t *testing.T) {
	f := start(t)
	f.put(t, validatingPolicies, demanding("none"))
	f.put(t, validatingBindings, bound())
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	for i := range rounds {
		now, before := fmt.Sprint("v", i), fmt.Sprint("v", i-1)
		f.put(t, validatingPolicies, demanding(now))
		if _, err := f.write(t, now); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if _, err := f.write(t, before); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "v must be "+now) {
			t.Fatalf("round %d: the rule before it is still in force: %v", i, err)
		}
	}
	for i := range 20 {
		if err := f.client.Resource(validatingBindings).Delete(t.Context(), "demanding", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.write(t, "free"); err != nil {
			t.Fatalf("round %d: unbound and still in force: %v", i, err)
		}
		f.put(t, validatingBindings, bound())
		if _, err := f.write(t, "free"); !apierrors.IsInvalid(err) {
			t.Fatalf("round %d: bound and not in force: %v", i, err)
		}
	}
}

// Contract 5: no request is served before the policies that the storage knows are in force.
func TestPolicyIsInForceAfterARestart(t *testing.T) {
	f := start(t)
	f.put(t, validatingPolicies, demanding("x"))
	f.put(t, validatingBindings, bound())
	for range 3 {
		if err := f.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.client = connect(t, f.Environment)
		if _, err := f.write(t, "y"); !apierrors.IsInvalid(err) {
			t.Fatalf("not in force after a restart: %v", err)
		}
	}
}
