package rest

import (
	"strings"
	"testing"
	"time"

	"weir.dev/weir/server/request"
)

// BenchmarkBeforeCreate is the work of the registry on a new object of 2 KiB, without layers.
func BenchmarkBeforeCreate(b *testing.B) {
	g := generic(b, GenericConfig{Namespaced: true, StatusEnabled: true, Custom: true})
	ctx := request.WithNamespace(b.Context(), "d")
	raw := []byte(benchObject)
	b.ReportAllocs()
	for b.Loop() {
		obj, err := Initialize(ctx, g, parse(b, string(raw)), time.Unix(0, 0))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := BeforeCreate(ctx, g, obj); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBeforeUpdate is the work of the registry on an update of such an object.
func BenchmarkBeforeUpdate(b *testing.B) {
	g := generic(b, GenericConfig{Namespaced: true, StatusEnabled: true, Custom: true})
	ctx := request.WithNamespace(b.Context(), "d")
	obj, err := Initialize(ctx, g, parse(b, benchObject), time.Unix(0, 0))
	if err != nil {
		b.Fatal(err)
	}
	old, err := obj.Edit().Set("7", "metadata", "resourceVersion").Set("d", "metadata", "namespace").Set(int64(1), "metadata", "generation").Document()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		obj, err := old.Edit().Set("x", "spec", "changed").Document()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := BeforeUpdate(ctx, g, obj, old); err != nil {
			b.Fatal(err)
		}
	}
}

var benchObject = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"a":"b"},"labels":{"app":"web"},` +
	`"managedFields":[{"apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:n":{}}},"manager":"m","operation":"Update","time":"2030-01-02T03:04:05Z"}],` +
	`"name":"a"},"spec":{` + strings.Repeat(`"k":{"a":[1,2,3],"b":"text of some length"},`, 1) + manyFields() + `"z":1}}`

func manyFields() string {
	var b strings.Builder
	for i := range 40 {
		b.WriteString(`"m` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":{"a":[1,2,3],"b":"text"},`)
	}
	return b.String()
}
