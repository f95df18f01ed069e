package loader_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var (
	mutatingPolicies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"}
	mutatingBindings = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"}
)

// Contract 4: when the write of a policy, a binding or a param returns, the next request meets it. Of each kind objects are
// created, changed and deleted; each request says by its own text which version it met.
func TestEachWriteIsMetByTheNextRequest(t *testing.T) {
	const admissionV1 = "admissionregistration.k8s.io/v1"
	validating := func(name, text string) *unstructured.Unstructured {
		return object(admissionV1, "ValidatingAdmissionPolicy", name, map[string]any{"matchConstraints": onMaps(),
			"validations": []any{map[string]any{"expression": "object.metadata.name != 'probe'", "message": "refused by " + text}}})
	}
	mutating := func(name, text string) *unstructured.Unstructured {
		return object(admissionV1, "MutatingAdmissionPolicy", name, map[string]any{"matchConstraints": onMaps(), "reinvocationPolicy": "Never",
			"mutations": []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{
				"expression": fmt.Sprintf("[JSONPatch{op: 'add', path: '/data/v', value: 'changed by %s'}]", text)}}}})
	}
	rego := func(name, text string) *unstructured.Unstructured {
		return weirPolicy(name, "rego", map[string]any{"source": fmt.Sprintf("package p\n\ndeny contains \"refused by %s\" if input.object.metadata.name == \"probe\"\n", text)})
	}
	binding := func(apiVersion, kind string, spec map[string]any) func(name, policy string) *unstructured.Unstructured {
		return func(name, policy string) *unstructured.Unstructured {
			all := map[string]any{"policyName": policy}
			for key, value := range spec {
				all[key] = value
			}
			return object(apiVersion, kind, name, all)
		}
	}
	validatingBinding := binding(admissionV1, "ValidatingAdmissionPolicyBinding", map[string]any{"validationActions": []any{"Deny"}})
	mutatingBinding := binding(admissionV1, "MutatingAdmissionPolicyBinding", nil)
	regoBinding := binding("weir.dev/v1alpha1", "PolicyBinding", nil)
	byParam := validating("limited", "")
	byParam.Object["spec"].(map[string]any)["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	byParam.Object["spec"].(map[string]any)["validations"] = []any{map[string]any{
		"expression": "object.metadata.name != 'probe'", "messageExpression": "'refused by ' + params.data.v"}}
	limited := validatingBinding("limited", "limited")
	limited.Object["spec"].(map[string]any)["paramRef"] = map[string]any{"name": "limit", "namespace": "default", "parameterNotFoundAction": "Allow"}

	// A kind is flipped by version: each is an object by the name of flipped, made of a text that the next request tells.
	type with struct {
		gvr schema.GroupVersionResource
		obj *unstructured.Unstructured
	}
	tests := []struct {
		name string
		// around is there all the time.
		around  []with
		gvr     schema.GroupVersionResource
		flipped func(text string) *unstructured.Unstructured
		// texts are those of the versions in turn; nil: each has its own.
		texts []string
		does  string
	}{
		{name: "ValidatingAdmissionPolicy", does: "refused by ", gvr: validatingPolicies,
			around:  []with{{validatingBindings, validatingBinding("flipped", "flipped")}},
			flipped: func(text string) *unstructured.Unstructured { return validating("flipped", text) }},
		{name: "ValidatingAdmissionPolicyBinding", does: "refused by ", gvr: validatingBindings, texts: []string{"one", "two"},
			around:  []with{{validatingPolicies, validating("one", "one")}, {validatingPolicies, validating("two", "two")}},
			flipped: func(text string) *unstructured.Unstructured { return validatingBinding("flipped", text) }},
		{name: "MutatingAdmissionPolicy", does: "changed by ", gvr: mutatingPolicies,
			around:  []with{{mutatingBindings, mutatingBinding("flipped", "flipped")}},
			flipped: func(text string) *unstructured.Unstructured { return mutating("flipped", text) }},
		{name: "MutatingAdmissionPolicyBinding", does: "changed by ", gvr: mutatingBindings, texts: []string{"one", "two"},
			around:  []with{{mutatingPolicies, mutating("one", "one")}, {mutatingPolicies, mutating("two", "two")}},
			flipped: func(text string) *unstructured.Unstructured { return mutatingBinding("flipped", text) }},
		{name: "Policy", does: "refused by ", gvr: weirPolicies,
			around:  []with{{weirBindings, regoBinding("flipped", "flipped")}},
			flipped: func(text string) *unstructured.Unstructured { return rego("flipped", text) }},
		{name: "PolicyBinding", does: "refused by ", gvr: weirBindings, texts: []string{"one", "two"},
			around:  []with{{weirPolicies, rego("one", "one")}, {weirPolicies, rego("two", "two")}},
			flipped: func(text string) *unstructured.Unstructured { return regoBinding("flipped", text) }},
		{name: "param", does: "refused by ", gvr: configMaps,
			around:  []with{{validatingPolicies, byParam}, {validatingBindings, limited}},
			flipped: func(text string) *unstructured.Unstructured { return configMap("limit", text) }},
	}
	flips := 156 // of each kind: together more than a thousand
	if testing.Short() {
		flips = 12
	}
	f := start(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			of := func(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
				if gvr == configMaps {
					return f.client.Resource(gvr).Namespace("default")
				}
				return f.client.Resource(gvr)
			}
			for _, w := range tc.around {
				f.put(t, w.gvr, w.obj)
			}
			r := of(tc.gvr)
			name := tc.flipped("").GetName()
			defer func() { // the other kinds meet none of it
				for _, w := range append(tc.around, with{tc.gvr, tc.flipped("")}) {
					if err := of(w.gvr).Delete(t.Context(), w.obj.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
						t.Error(err)
					}
				}
			}()
			for i := range flips {
				text := fmt.Sprint("version ", i)
				if tc.texts != nil {
					text = tc.texts[i%len(tc.texts)]
				}
				obj, verb, err := tc.flipped(text), "", error(nil)
				switch i % 4 {
				case 0:
					verb = "create"
					_, err = r.Create(t.Context(), obj, metav1.CreateOptions{})
				case 1, 2:
					verb = "update"
					_, err = r.Patch(t.Context(), name, types.MergePatchType, rawOf(t, obj), metav1.PatchOptions{})
				case 3:
					verb = "delete"
					err = r.Delete(t.Context(), name, metav1.DeleteOptions{})
				}
				if err != nil {
					t.Fatalf("flip %d, %s: %v", i, verb, err)
				}
				want := tc.does + text
				if verb == "delete" {
					want = "as it was sent"
				}
				if got := f.met(t); got != want {
					t.Fatalf("flip %d, %s: the next request is %q, want %q", i, verb, got, want)
				}
			}
		})
	}
}

func rawOf(t *testing.T, obj *unstructured.Unstructured) []byte {
	t.Helper()
	raw, err := obj.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// met tells what became of a ConfigMap that is created: who refused it, or what it says then.
func (f *fixture) met(t *testing.T) string {
	t.Helper()
	obj, err := f.write(t, "as it was sent")
	if err == nil {
		v, _, _ := unstructured.NestedString(obj.Object, "data", "v")
		return v
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		t.Fatal(err)
	}
	_, said, found := strings.Cut(status.ErrStatus.Message, "denied request: ")
	if !found {
		return status.ErrStatus.Message
	}
	return said
}
