package loader_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
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

func TestPolicyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		// As whoever mounts files does it: at once.
		tmp := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	text := func(objects ...*unstructured.Unstructured) string {
		var all []string
		for _, obj := range objects {
			raw, err := obj.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(raw))
		}
		return strings.Join(all, "\n---\n")
	}
	write("policies.yaml", text(demanding("x"), bound()))
	env := servertest.Start(t, servertest.Options{Config: server.Config{PolicyDir: dir}})
	f := &fixture{env, connect(t, env)}
	if _, err := f.write(t, "y"); !apierrors.IsInvalid(err) || !strings.HasSuffix(err.Error(), "(the policy is of the file policies.yaml in the server's --policy-dir)") {
		t.Fatalf("not in force after the start: %v", err)
	}
	write("policies.yaml", text(demanding("y"), bound()))
	passes := func(v string) func() (bool, any) {
		return func() (bool, any) { _, err := f.write(t, v); return err == nil, err }
	}
	eventually(t, passes("y"))
	write("broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
	eventually(t, func() (bool, any) {
		n := f.metric(t, `weir_configuration_loads_total{kind="PolicyDirectory",result="refused"}`)
		return n == 1, n
	})
	if _, err := f.write(t, "x"); !apierrors.IsInvalid(err) {
		t.Fatalf("the last known good is not in force: %v", err)
	}
	for _, name := range []string{"broken.yaml", "policies.yaml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, passes("x"))
}

func TestSuspendPolicies(t *testing.T) {
	env := servertest.Start(t, servertest.Options{Config: server.Config{SuspendPolicies: true}})
	f := &fixture{env, connect(t, env)}
	f.put(t, validatingPolicies, demanding("x"))
	f.put(t, validatingBindings, bound())
	if _, err := f.write(t, "y"); err != nil {
		t.Fatalf("a suspended policy is in force: %v", err)
	}
	f.put(t, weirPolicies, object("weir.dev/v1alpha1", "Policy", "p", map[string]any{
		"matchConstraints": demanding("").Object["spec"].(map[string]any)["matchConstraints"],
		"rego":             map[string]any{"source": "package p\n\ndeny contains \"no\" if true\n"}}))
	f.put(t, weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "b", map[string]any{"policyName": "p"}))
	for name, gvr := range map[string]schema.GroupVersionResource{"demanding": validatingPolicies, "p": weirPolicies, "b": weirBindings} {
		got := f.settled(t, gvr, name)
		if c := condition(got, "Ready"); c.Status != metav1.ConditionFalse || c.Reason != "Suspended" {
			t.Errorf("%s %s: Ready is %+v", gvr.Resource, name, c)
		}
	}
}
