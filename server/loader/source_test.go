package loader_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/weir/host"
)

// inForce waits until a module has a digest in force and knows no error.
func (f *fixture) inForce(t testing.TB, name string, wasm []byte) {
	t.Helper()
	f.until(t, f.client.Resource(modules), name, func(obj *unstructured.Unstructured) bool {
		digest, _, _ := unstructured.NestedString(obj.Object, "status", "digest")
		return digest == host.Digest(wasm) && condition(obj, "Ready").Status == metav1.ConditionTrue
	})
}

func wasmMap(wasm []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "wasm", "namespace": "modules"},
		"data": map[string]any{"v": ""}, "binaryData": map[string]any{"m": base64.StdEncoding.EncodeToString(wasm)}}}
}

func TestConfigMapSource(t *testing.T) {
	f := start(t)
	maps := f.client.Resource(configMaps).Namespace("modules")
	f.put(t, modules, module("stamp", map[string]any{"configMapRef": map[string]any{"namespace": "modules", "name": "wasm", "key": "m"}}))
	if c := condition(f.settled(t, modules, "stamp"), "Ready"); c.Reason != "Refused" || !strings.Contains(c.Message, `configmaps "modules/wasm" not found`) {
		t.Errorf("Ready is %+v", c)
	}
	if _, err := f.client.Resource(configMaps.GroupVersion().WithResource("namespaces")).Create(t.Context(),
		object("v1", "Namespace", "modules", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), wasmMap(stamp("v001")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.inForce(t, "stamp", stamp("v001"))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
	loads := f.metric(t, `weir_configuration_loads_total{kind="Module",result="accepted"}`)
	changed := wasmMap(stamp("v001"))
	changed.SetLabels(map[string]string{"a": "b"})
	if _, err := maps.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Update(t.Context(), wasmMap(stamp("v002")), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.inForce(t, "stamp", stamp("v002"))
	if n := f.metric(t, `weir_configuration_loads_total{kind="Module",result="accepted"}`); n != loads+1 {
		t.Errorf("%v loads, want 1: a label is no reason to load", n-loads)
	}
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves, want v002", v)
	}
	// Without its source the module stays, also over a restart.
	if err := maps.Delete(t.Context(), "wasm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.lastKnownGood(t, stamp("v002"))
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves after a restart without the source, want v002", v)
	}
	f.lastKnownGood(t, stamp("v002"))
	// The module follows another source from now on.
	f.ready(t, modules, module("stamp", inline(stamp("v003"))))
	if _, err := maps.Create(t.Context(), wasmMap(stamp("v004")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.ready(t, modules, module("other", map[string]any{"configMapRef": map[string]any{"namespace": "modules", "name": "wasm", "key": "m"}}))
	if v := f.serves(t); v != "v003" {
		t.Errorf("%q serves, want v003", v)
	}
}

// lastKnownGood waits until the stamp module says that it is not what its source has.
func (f *fixture) lastKnownGood(t testing.TB, wasm []byte) {
	t.Helper()
	got := f.until(t, f.client.Resource(modules), "stamp", func(obj *unstructured.Unstructured) bool {
		return condition(obj, "Ready").Reason == "LastKnownGood"
	})
	if digest, _, _ := unstructured.NestedString(got.Object, "status", "digest"); digest != host.Digest(wasm) {
		t.Errorf("status.digest is %s, want %s", digest, host.Digest(wasm))
	}
}

func TestFileSource(t *testing.T) {
	f := start(t)
	dir, err := f.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "new"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "stamp.wasm")); err != nil {
			t.Fatal(err)
		}
	}
	write(stamp("v001"))
	f.ready(t, modules, module("stamp", map[string]any{"file": "stamp.wasm"}))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	write(stamp("v002"))
	f.inForce(t, "stamp", stamp("v002"))
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves, want v002", v)
	}
	write([]byte("half of a module"))
	f.lastKnownGood(t, stamp("v002"))
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves, want v002", v)
	}
	write(stamp("v003"))
	f.inForce(t, "stamp", stamp("v003"))
}

// Contract 5: never fail open at start.
func TestStrategyThatCannotBeMadeAfterARestart(t *testing.T) {
	f := start(t)
	dir, err := f.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stamp.wasm"), stamp("v001"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.ready(t, modules, module("stamp", map[string]any{"file": "stamp.wasm"}))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	if _, err := f.client.Resource(configMaps).Namespace("default").Create(t.Context(), configMap("kept", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "stamp.wasm")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.DataDir(), "artefacts")); err != nil {
		t.Fatal(err)
	}
	for restart := range 2 {
		if err := f.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.refuses(t, `strategy "configmaps" of this resource is not available, so no write can be checked`)
		got := f.until(t, f.client.Resource(strategies), "configmaps", func(obj *unstructured.Unstructured) bool {
			return condition(obj, "Ready").Reason == "Unavailable" // what it was before the restart is written anew soon after
		})
		if c := condition(got, "Ready"); !strings.Contains(c.Message, "stamp.wasm: no such file") {
			t.Errorf("restart %d: Ready is %+v", restart, c)
		}
		if n, _, _ := unstructured.NestedInt64(got.Object, "status", "wasInForce"); n != 1 {
			t.Errorf("restart %d: status.wasInForce is %d, want 1", restart, n)
		}
		if n, ok, _ := unstructured.NestedInt64(got.Object, "status", "inForce"); ok {
			t.Errorf("restart %d: status.inForce is %d, want none", restart, n)
		}
		f.lastKnownDigest(t, stamp("v001"))
		// A change of something else does not open the resource.
		f.put(t, strategies, object("weir.dev/v1alpha1", "Strategy", "secrets", map[string]any{"group": "", "resource": "secrets", "layers": []any{}}))
		f.refuses(t, "")
	}
	if err := os.WriteFile(filepath.Join(dir, "stamp.wasm"), stamp("v001"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.inForce(t, "stamp", stamp("v001"))
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
}

// lastKnownDigest checks that the stamp module remembers what was good.
func (f *fixture) lastKnownDigest(t testing.TB, wasm []byte) {
	t.Helper()
	got := f.settled(t, modules, "stamp")
	if digest, _, _ := unstructured.NestedString(got.Object, "status", "digest"); digest != host.Digest(wasm) {
		t.Errorf("status.digest is %s, want %s", digest, host.Digest(wasm))
	}
}
