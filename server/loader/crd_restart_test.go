package loader_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// named is a definition with names.
func named(plural, kind string, shortNames ...any) *unstructured.Unstructured {
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", plural+".example.com", map[string]any{
		"group": "example.com", "scope": "Cluster", "names": map[string]any{"plural": plural, "kind": kind, "shortNames": shortNames},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
	})
}

// names replaces the short names of a definition.
func (f *fixture) names(t *testing.T, plural string, shortNames ...string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"names": map[string]any{"shortNames": shortNames}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Resource(crds).Patch(t.Context(), plural+".example.com", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// accepted waits until the conditions of a definition are as wanted.
func (f *fixture) accepted(t *testing.T, plural string, names, established string) {
	t.Helper()
	f.until(t, f.client.Resource(crds), plural+".example.com", func(obj *unstructured.Unstructured) bool {
		got := map[any]any{}
		list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range list {
			got[c.(map[string]any)["type"]] = c.(map[string]any)["status"]
		}
		return got["NamesAccepted"] == names && got["Established"] == established
	})
}

func (f *fixture) served(t *testing.T, plural string) error {
	t.Helper()
	_, err := f.client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}).List(t.Context(), metav1.ListOptions{})
	return err
}

// A definition that waits for a name has it as soon as the other one has it no more, also where that stays.
func TestNameThatIsGivenUp(t *testing.T) {
	f := start(t)
	f.put(t, crds, named("things", "Thing", "x"))
	f.accepted(t, "things", "True", "True")
	f.put(t, crds, named("widgets", "Widget", "x"))
	f.accepted(t, "widgets", "False", "False")
	f.names(t, "things", "y")
	f.accepted(t, "widgets", "True", "True")
	if err := f.served(t, "widgets"); err != nil {
		t.Error(err)
	}
}

// A restart takes a name from nobody, and what is served stays so.
func TestNamesAfterARestart(t *testing.T) {
	f := start(t)
	f.put(t, crds, named("zebras", "Animal", "x"))
	f.accepted(t, "zebras", "True", "True")
	f.put(t, crds, named("ants", "Animal"))
	f.accepted(t, "ants", "False", "False")
	f.put(t, crds, named("zulus", "Zulu"))
	f.accepted(t, "zulus", "True", "True")
	f.names(t, "zulus", "x")
	f.accepted(t, "zulus", "False", "True")
	for range 2 {
		for plural, wanted := range map[string]bool{"zebras": true, "ants": false, "zulus": true} {
			if err := f.served(t, plural); (err == nil) != wanted {
				t.Errorf("%s: %v, want it served: %v", plural, err, wanted)
			}
		}
		if err := f.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.accepted(t, "zebras", "True", "True")
	f.accepted(t, "ants", "False", "False")
	f.accepted(t, "zulus", "False", "True")
}
