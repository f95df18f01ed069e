package loader_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/hosttest"
)

// The objects of a definition that is deleted are removed by the strategy that is in force at the time, not by one whose
// module may be closed.
func TestCleanupWhileTheModuleIsSwapped(t *testing.T) {
	f := start(t)
	consenter := func(name string) map[string]any {
		return inline(hosttest.NewGuest(name, abi.OpValidateDelete).Finish(nil))
	}
	f.put(t, crds, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com", map[string]any{
		"group": "example.com", "scope": "Cluster", "names": map[string]any{"plural": "things", "kind": "Thing"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
	}))
	f.ready(t, modules, module("consenter", consenter("one")))
	layer := calls("consenter")
	layer["name"] = "consenter"
	f.ready(t, strategies, object("weir.dev/v1alpha1", "Strategy", "things.example.com", map[string]any{
		"group": "example.com", "resource": "things", "layers": []any{layer}}))
	group := crds
	group.Group, group.Resource = "example.com", "things"
	things := f.client.Resource(group)
	held := object("example.com/v1", "Thing", "held", map[string]any{})
	held.SetFinalizers([]string{"example.com/hold"})
	if _, err := things.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Resource(crds).Delete(t.Context(), "things.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.ready(t, modules, module("consenter", consenter("two")))
	if _, err := things.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) {
		list, err := f.client.Resource(crds).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 0, list.Items
	})
	f.loaded(t, 1)
}

// A definition of which nothing is served any more goes too, with its objects.
func TestCleanupOfWhatIsNotServed(t *testing.T) {
	f := start(t)
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com", map[string]any{
		"group": "example.com", "scope": "Cluster", "names": map[string]any{"plural": "things", "kind": "Thing"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
	})
	group := crds
	group.Group, group.Resource = "example.com", "things"
	gone := func() (bool, any) {
		list, err := f.client.Resource(crds).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 0, list.Items
	}
	f.put(t, crds, definition)
	if _, err := f.client.Resource(group).Create(t.Context(), object("example.com/v1", "Thing", "one", map[string]any{}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Resource(crds).Patch(t.Context(), "things.example.com", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Resource(crds).Delete(t.Context(), "things.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, gone)
	f.put(t, crds, definition)
	list, err := f.client.Resource(group).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("%d objects came back with the definition", len(list.Items))
	}
}
