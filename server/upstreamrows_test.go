package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// TestRowsOfKubeAPIServer serves from an etcd what kube-apiserver v1.37.2 stored there, of custom resources and their
// definitions, as that served it. What is written lies under the same keys, in the same form.
func TestRowsOfKubeAPIServer(t *testing.T) {
	text, err := os.ReadFile("testdata/kube-apiserver.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		// Rows are the values in etcd by their keys, Served the objects by their paths, without a resourceVersion.
		Rows   map[string]string
		Served map[string]map[string]any
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	etcd, address := startEtcd(t)
	for key, row := range golden.Rows {
		if _, err := etcd.Client().Put(t.Context(), key, row); err != nil {
			t.Fatal(err)
		}
	}
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	if len(golden.Served) < 4 {
		t.Fatalf("%d objects", len(golden.Served))
	}
	same := func(how string, got, want map[string]any) {
		t.Helper()
		unstructured.RemoveNestedField(got, "metadata", "resourceVersion")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n is   %s\n want %s", how, jsonOf(t, got), jsonOf(t, want))
		}
	}
	gadgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	for path, want := range golden.Served {
		if want["kind"] == "CustomResourceDefinition" { // what kube-apiserver adds when a deletion begins
			want["metadata"].(map[string]any)["finalizers"] = []any{"customresourcecleanup.apiextensions.k8s.io"}
		}
		code, got := all.request(http.MethodGet, path, "")
		if code != http.StatusOK {
			t.Fatalf("get %s: %d %v", path, code, got)
		}
		same("get "+path, got, want)
		collection, name := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
		_, list := all.request(http.MethodGet, collection+"?fieldSelector=metadata.name%3D"+name, "")
		items, _ := list["items"].([]any)
		if len(items) != 1 {
			t.Fatalf("list %s: %v", path, list)
		}
		listed := maps.Clone(want)
		if want["kind"] == "CustomResourceDefinition" { // built in: its list says what its items are
			delete(listed, "apiVersion")
			delete(listed, "kind")
		}
		same("list "+path, items[0].(map[string]any), listed)
		_, event := all.request(http.MethodGet, collection+"?watch=true&timeoutSeconds=60&fieldSelector=metadata.name%3D"+name, "")
		object, _ := event["object"].(map[string]any)
		same("watch "+path, object, want)
	}

	// The schema is in force.
	gadget := "/apis/example.com/v1/namespaces/default/gadgets/a"
	if _, text, _ := body(t, all.env, gadget); !strings.Contains(text, `"size":9007199254740993,`) {
		t.Errorf("an integer is not exact: %s", text)
	}
	for _, spec := range []string{`{"size":"x"}`, `{"text":"bad"}`} {
		if code, out := all.request(http.MethodPost, strings.TrimSuffix(gadget, "/a"), `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"b"},"spec":`+spec+`}`); code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %v", spec, code, out)
		}
	}
	if code, out := all.request(http.MethodGet, strings.TrimSuffix(gadget, "/a")+"?fieldSelector=spec.text%3Dnone", ""); code != http.StatusOK || len(out["items"].([]any)) != 0 {
		t.Errorf("selected by a field: %d %v", code, out)
	}

	// What is written is what kube-apiserver would have written.
	created := all.create(gadgets, "default", "Gadget", "b", with(int64(9007199254740993), "spec", "size"))
	changed, err := all.client.Resource(gadgets).Namespace("default").Patch(t.Context(), "a", "application/merge-patch+json", []byte(`{"spec":{"size":7}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*unstructured.Unstructured{"a": changed, "b": created.Unstructured} {
		resp, err := etcd.Client().Get(t.Context(), "/registry/example.com/gadgets/default/"+name)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		row := map[string]any{}
		if err := json.Unmarshal(resp.Kvs[0].Value, &row); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(resp.Kvs[0].ModRevision) != want.GetResourceVersion() || member(row, "metadata.resourceVersion") != "<absent>" {
			t.Errorf("%s at %s is stored at %d as %s", name, want.GetResourceVersion(), resp.Kvs[0].ModRevision, resp.Kvs[0].Value)
		}
		same("row of "+name, row, decoded(t, jsonOf(t, without(want))))
	}

	// A definition takes its objects with it.
	gauges, err := all.client.Resource(definitions).Get(t.Context(), "gauges.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all.delete(object{gauges, definitions}, metav1.DeletePropagationBackground)
	all.awaitGone(object{gauges, definitions})
	if resp, err := etcd.Client().Get(t.Context(), "/registry/example.com/gauges/g"); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("an object outlives its definition: %v", err)
	}
}

func without(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	out.SetResourceVersion("")
	return out.Object
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decoded(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
