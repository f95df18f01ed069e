package cases_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/sdk/cases"
)

const shared = `
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: shop}
data: {n: "1"}
---
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Secret, metadata: {name: a}}
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
---
`

func TestParseObjects(t *testing.T) {
	docs, err := cases.ParseObjects([]byte(shared))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range docs {
		names = append(names, d.Get("kind").String()+"/"+d.Get("metadata", "name").String())
	}
	if !slices.Equal(names, []string{"ConfigMap/limits", "Secret/a", "Secret/b"}) {
		t.Errorf("objects %q", names)
	}
}

// TestObjects: a case sees the objects of the directory, of its file and its own.
func TestObjects(t *testing.T) {
	const text = `
base: {kind: Thing, apiVersion: example.com/v1, metadata: {name: a}}
objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: of-the-file, namespace: shop}}]
cases:
- name: all
  hook: connect
  objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: shop}}]
  expect: {object: {items: [
    {apiVersion: v1, data: {n: "1"}, kind: ConfigMap, metadata: {name: limits, namespace: shop}},
    {apiVersion: v1, kind: ConfigMap, metadata: {name: of-the-file, namespace: shop}},
    {apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: shop}}], resourceVersion: "1"}}
- name: not those of another case
  hook: connect
  expect: {object: {items: [
    {apiVersion: v1, data: {n: "1"}, kind: ConfigMap, metadata: {name: limits, namespace: shop}},
    {apiVersion: v1, kind: ConfigMap, metadata: {name: of-the-file, namespace: shop}}], resourceVersion: "1"}}
`
	suites, err := cases.Load(fstest.MapFS{"cases/a.yaml": {Data: []byte(text)}, "cases/objects/shared.yaml": {Data: []byte(shared)}}, "cases")
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := host.NewRuntime(host.Config{Interpreter: true})
	if err != nil {
		t.Fatal(err)
	}
	wasm := hosttest.Looker([]string{"lookup:configmaps"}, []string{`{"resource":"configmaps","namespace":"shop"}`}, abi.OpConnect)
	r := cases.NewRunner(runtime, wasm, host.ModuleConfig{Name: "looker"})
	defer func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := runtime.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range suites[0].Cases {
		got, err := r.Run(t.Context(), c)
		if err != nil || len(got.Problems) > 0 {
			t.Errorf("%s: %v, %s", c.Name, err, strings.Join(got.Problems, "\n"))
		}
	}
	if _, err := cases.Load(fstest.MapFS{"cases/a.yaml": {Data: []byte(text)}, "cases/objects/bad.yaml": {Data: []byte("kind: ConfigMap")}}, "cases"); err == nil || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("an object without a name: %v", err)
	}
}
