package policy

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
)

// TestRequestIsCanonical reads what newRequest writes by hand, and holds it against the same written by the library.
func TestRequestIsCanonical(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	beta := schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"}
	options, err := document.Parse([]byte(`{"apiVersion":"meta.k8s.io/v1","kind":"CreateOptions"}`))
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	base := func(more object) object {
		out := object{"uid": "", "dryRun": false, "operation": "CREATE", "userInfo": object{},
			"kind":            object{"group": "apps", "version": "v1", "kind": "Deployment"},
			"requestKind":     object{"group": "apps", "version": "v1beta1", "kind": "Deployment"},
			"resource":        object{"group": "apps", "version": "v1", "resource": "deployments"},
			"requestResource": object{"group": "apps", "version": "v1", "resource": "deployments"}}
		for name, value := range more {
			out[name] = value
		}
		return out
	}
	tests := []struct {
		name string
		a    admission.Attributes
		want object
	}{
		{"of nobody", admission.Attributes{}, base(nil)},
		{"of somebody without anything", admission.Attributes{User: &user.DefaultInfo{}}, base(nil)},
		{"with all", admission.Attributes{Name: `a"b`, Namespace: "ns", Subresource: "status", DryRun: true, Options: options,
			User: &user.DefaultInfo{Name: "system:\n\x01ä", UID: "u", Groups: []string{"a", "b\\"}, Extra: map[string][]string{"z": {"1"}, "a/b": {"2", "3"}}}},
			base(object{"name": `a"b`, "namespace": "ns", "subResource": "status", "requestSubResource": "status", "dryRun": true,
				"options": object{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
				"userInfo": object{"username": "system:\n\x01ä", "uid": "u", "groups": []string{"a", "b\\"},
					"extra": object{"z": []string{"1"}, "a/b": []string{"2", "3"}}}})},
		{"not UTF-8", admission.Attributes{Name: "a\xffb"}, base(object{"name": "a\uFFFDb"})},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.a.Operation, tc.a.Kind, tc.a.Resource = admission.Create, beta, resource
			got := newRequest(&tc.a, target{kind: kind, resource: resource})
			if err := got.Err(); err != nil {
				t.Fatal(err)
			}
			want, err := document.FromValue(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Bytes()) != string(want.Bytes()) {
				t.Errorf("got\n%s\nwant\n%s", got.Bytes(), want.Bytes())
			}
		})
	}
}
