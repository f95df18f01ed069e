package server

import (
	"testing"

	"weir.dev/weir/abi/document"
)

func TestUpgradeDefinition(t *testing.T) {
	const cleanup = `"finalizers":["customresourcecleanup.apiextensions.k8s.io"]`
	tests := []struct {
		name, stored string
		want         string // "": as it is
	}{
		{name: "this server's", stored: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{` + cleanup + `,"name":"a"},"spec":{"x":1}}`},
		{name: "being deleted", stored: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["f"],"name":"a"}}`},
		{name: "makes no sense", stored: `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"versions":"v1"}}`},
		{"without the finalizer", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"finalizers":["f"],"name":"a"},"spec":{"x":1}}`,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"finalizers":["f","customresourcecleanup.apiextensions.k8s.io"],"name":"a"},"spec":{"x":1}}`},
		{"v1beta1", `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"a","resourceVersion":"7"},"spec":{"group":"g","names":{"kind":"A","plural":"as"},"validation":{"openAPIV3Schema":{"type":"object"}},"version":"v1"}}`,
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",` + cleanup + `,"name":"a","resourceVersion":"7"},"spec":{"conversion":{"strategy":"None"},"group":"g","names":{"kind":"A","listKind":"AList","plural":"as","singular":"a"},"preserveUnknownFields":true,"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}},"served":true,"storage":true}]},"status":{"acceptedNames":{"kind":"","plural":""},"conditions":null,"storedVersions":["v1"]}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj, err := document.Parse([]byte(tc.stored))
			if err != nil {
				t.Fatal(err)
			}
			got, err := upgradeDefinition(obj)
			switch {
			case err != nil:
				t.Error(err)
			case tc.want == "" && got != obj:
				t.Errorf("changed to %s", got.Bytes())
			case tc.want != "" && string(got.Bytes()) != tc.want:
				t.Errorf("got  %s\nwant %s", got.Bytes(), tc.want)
			}
		})
	}
}
