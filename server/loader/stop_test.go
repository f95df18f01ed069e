package loader_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/server/servertest"
)

// stopLimit is far less than what is under way would take on its own, a minute, and more than a busy machine takes.
const stopLimit = 30 * time.Second

// The server stops in whatever state the loader is, and goes on where it was.
func TestStopWhileWorkIsUnderWay(t *testing.T) {
	env := servertest.Start(t, servertest.Options{NotReady: true})
	f := &fixture{env, connect(t, env)}
	f.serving(t)
	f.ready(t, modules, module("stamp", inline(stamp("v001"))))
	f.put(t, strategies, onConfigMaps(calls("stamp")))
	// A test that takes a minute.
	var endless []byte
	for _, s := range hosttest.Sinners() {
		if s.Name == "loops_forever" {
			endless = s.Wasm
		}
	}
	f.put(t, modules, module("endless", inline(endless), map[string]any{
		"limits": map[string]any{"fuel": int64(1) << 52, "timeoutMilliseconds": int64(60_000)},
		"tests":  []any{map[string]any{"name": "t", "hook": "validateCreate", "object": map[string]any{}}},
	}))
	// A module whose ConfigMap is followed, one whose file is, and one that is replaced while it is loaded.
	f.put(t, modules, module("map", map[string]any{"configMapRef": map[string]any{"namespace": "default", "name": "absent", "key": "m"}}))
	f.put(t, modules, module("file", map[string]any{"file": "absent"}))
	for _, v := range []string{"v002", "v003", "v004"} {
		f.put(t, modules, module("stamp", inline(stamp(v))))
	}
	// A definition whose objects do not go.
	f.put(t, crds, object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com", map[string]any{
		"group": "example.com", "scope": "Cluster", "names": map[string]any{"plural": "things", "kind": "Thing"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
	}))
	things := crds
	things.Group, things.Resource = "example.com", "things"
	held := object("example.com/v1", "Thing", "held", map[string]any{})
	held.SetFinalizers([]string{"example.com/hold"})
	if _, err := f.client.Resource(things).Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Resource(crds).Delete(t.Context(), "things.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > stopLimit {
		t.Errorf("the stop took %v", d)
	}

	// It is not ready before every module is loaded or refused.
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.until(t, f.client.Resource(modules), "stamp", func(obj *unstructured.Unstructured) bool {
		return condition(obj, "Ready").Status == metav1.ConditionTrue
	})
	if err := f.Server().Ready(); err == nil {
		t.Error("the server is ready while a module is loaded")
	}
	if err := f.client.Resource(modules).Delete(t.Context(), "endless", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.serving(t)
	if v := f.serves(t); v != "v004" {
		t.Errorf("%q serves, want v004", v)
	}
	if _, err := f.client.Resource(things).Patch(t.Context(), "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) {
		list, err := f.client.Resource(crds).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=things.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 0, list.Items
	})
}

// serving waits until the server is ready.
func (f *fixture) serving(t testing.TB) {
	t.Helper()
	eventually(t, func() (bool, any) {
		err := f.Server().Ready()
		return err == nil, err
	})
}
