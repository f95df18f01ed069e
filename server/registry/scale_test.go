package registry

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

func testScale(t *testing.T) (*Store, *Scale) {
	t.Helper()
	paths := ScalePaths{SpecReplicas: ".spec.replicas", StatusReplicas: ".status.replicas", LabelSelector: ".spec.selector"}
	s := testStore(t, func(c *rest.GenericConfig) {
		c.Layers = []rest.Layer{ScaleLayer{Paths: ScalePaths{SpecReplicas: ".spec.replicas", StatusReplicas: ".status.replicas"}}}
	})
	scale, err := NewScale(s, paths, schema.GroupVersion{Group: "example.com", Version: "v1"}, []string{"v1", "v2"})
	if err != nil {
		t.Fatal(err)
	}
	return s, scale
}

func TestScaleGet(t *testing.T) {
	s, scale := testScale(t)
	ctx := inNamespace(t, "default")
	tests := []struct {
		name, spec, selector string
		replicas             int64
	}{
		{"text", `{"replicas":3,"selector":"a=b"}`, "a=b", 3},
		{"labelselector", `{"replicas":1,"selector":{"matchExpressions":[{"key":"k","operator":"Exists"}],"matchLabels":{"a":"b"}}}`, "a=b,k", 1},
		{"map", `{"replicas":2,"selector":{"a":"b","c":"d"}}`, "a=b,c=d", 2},
		{"none", `{"replicas":2}`, "", 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := mustCreate(t, s, ctx, widget(t, `"name":"`+tc.name+`"`, tc.spec))
			got, err := scale.Get(ctx, tc.name, nil)
			if err != nil {
				t.Fatal(err)
			}
			n, _ := got.Get("spec", "replicas").Int()
			if n != tc.replicas || got.Get("status", "selector").String() != tc.selector || got.Get("kind").String() != "Scale" ||
				rest.MetaOf(got).UID() != rest.MetaOf(obj).UID() || rest.MetaOf(got).ResourceVersion() != rest.MetaOf(obj).ResourceVersion() {
				t.Errorf("scale %s", got.Bytes())
			}
		})
	}
	mustCreate(t, s, ctx, widget(t, `"name":"unset"`, `{}`))
	_, err := scale.Get(ctx, "unset", nil)
	wantStatus(t, err, 404, `the spec replicas field ".spec.replicas" does not exist`)
}

func TestScaleUpdate(t *testing.T) {
	s, scale := testScale(t)
	ctx := inNamespace(t, "default")
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{"replicas":1,"other":true}`))
	var seen, seenOld int64
	out, created, err := scale.Update(ctx, "a", edit(int64(5), "spec", "replicas"), nil, func(_ context.Context, obj, old *document.Document) error {
		seen, _ = obj.Get("spec", "replicas").Int()
		seenOld, _ = old.Get("spec", "replicas").Int()
		return nil
	}, false, nil)
	if err != nil || created {
		t.Fatalf("update: %v", err)
	}
	if n, _ := out.Get("spec", "replicas").Int(); n != 5 || seen != 5 || seenOld != 1 {
		t.Errorf("scale %s, admission saw %d -> %d", out.Bytes(), seenOld, seen)
	}
	obj, err := s.Get(ctx, "a", nil)
	if n, _ := obj.Get("spec", "replicas").Int(); err != nil || n != 5 || rest.MetaOf(obj).Generation() != 2 || !obj.Get("spec", "other").Exists() {
		t.Errorf("object %s", obj.Bytes())
	}
	tests := []struct {
		name  string
		info  rest.UpdateFunc
		code  int32
		texts []string
	}{
		{"negative", edit(int64(-1), "spec", "replicas"), 422, []string{"must be greater than or equal to 0"}},
		{"text", edit("x", "spec", "replicas"), 400, []string{"Scale"}},
		{"stale", edit("1", "metadata", "resourceVersion"), 409, []string{optimisticLockText}},
		{"name", edit("b", "metadata", "name"), 400, []string{"does not match"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := scale.Update(ctx, "a", tc.info, nil, nil, false, nil)
			wantStatus(t, err, tc.code, tc.texts...)
		})
	}
	mustCreate(t, s, ctx, widget(t, `"name":"unset"`, `{}`))
	_, _, err = scale.Update(ctx, "unset", edit("x", "metadata", "labels", "l"), nil, nil, false, nil)
	wantStatus(t, err, 400, "cannot be empty")
	mustUpdate(t, scale, ctx, "unset", edit(int64(0), "spec", "replicas"))
}

func TestScaleManagedFields(t *testing.T) {
	s, scale := testScale(t)
	ctx := inNamespace(t, "default")
	fields := mustParse(t, `[{"apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}},"manager":"m","operation":"Update","time":"2030-01-01T00:00:00Z"}]`)
	obj, err := widget(t, `"name":"a"`, `{"replicas":1}`).Edit().Set(fields, "metadata", "managedFields").Document()
	if err != nil {
		t.Fatal(err)
	}
	mustCreate(t, s, ctx, obj)
	mustUpdate(t, scale, ctx, "a", rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		entry := old.Get("metadata", "managedFields").Index(0)
		if entry.Get("apiVersion").String() != "autoscaling/v1" || !entry.Get("fieldsV1", "f:spec", "f:replicas").Exists() {
			t.Errorf("managedFields of the scale: %s", old.Bytes())
		}
		return old.Edit().Set(int64(2), "spec", "replicas").Document()
	}))
	out, err := s.Get(ctx, "a", nil)
	if err != nil || out.Get("metadata", "managedFields").Len() != 1 || out.Get("metadata", "managedFields").Index(0).Get("apiVersion").String() != "example.com/v1" {
		t.Errorf("managedFields of the object: %s", out.Bytes())
	}
}

func TestScaleLayer(t *testing.T) {
	s, _ := testScale(t)
	_, err := s.Create(inNamespace(t, "default"), widget(t, `"name":"a"`, `{"replicas":-1}`), nil, nil)
	wantStatus(t, err, 422, ".spec.replicas", "should be a non-negative integer")
}
