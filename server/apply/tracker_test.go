package apply

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"weir.dev/weir/abi/document"
)

var thing = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

func parse(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newTracker(t testing.TB, change func(*Config)) *Tracker {
	t.Helper()
	config := Config{Kind: thing, StorageVersion: "v1", Types: NewTypes(nil, true)}
	if change != nil {
		change(&config)
	}
	tracker, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}

func thingTypes() *Types {
	return NewTypes(func() (map[string]*spec.Schema, error) {
		text := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"string"}}}
		list := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"array"}, Items: &spec.SchemaOrArray{Schema: &text}}}
		list.AddExtension("x-kubernetes-list-type", "set")
		object := func(properties map[string]spec.Schema) spec.Schema {
			return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}
		}
		anything := spec.Schema{}
		anything.AddExtension("x-kubernetes-preserve-unknown-fields", true)
		number := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"number"}}}
		root := object(map[string]spec.Schema{
			"apiVersion": text, "kind": text,
			"metadata": object(map[string]spec.Schema{"name": text, "resourceVersion": text, "managedFields": anything}),
			"spec":     object(map[string]spec.Schema{"color": text, "tags": list, "num": number}),
		})
		root.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": thing.Group, "version": thing.Version, "kind": thing.Kind}})
		return map[string]*spec.Schema{"thing": &root}, nil
	}, false)
}

func TestConfigValidate(t *testing.T) {
	for _, config := range []Config{{}, {Kind: thing}, {Kind: thing, StorageVersion: "v1"}} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v is accepted", config)
		}
	}
}

func TestUpdateKeepsSpellingAndOwners(t *testing.T) {
	tracker := newTracker(t, nil)
	created, err := tracker.Update(t.Context(), nil, parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"f":1.0,"n":9223372036854775807}}`), "one")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(created.Bytes()); !strings.Contains(text, `"f":1.0`) || !strings.Contains(text, `"n":9223372036854775807`) || !strings.Contains(text, `"manager":"one","operation":"Update"`) {
		t.Errorf("created %s", text)
	}
	changed, err := created.Edit().Set("x", "spec", "g").Document()
	if err != nil {
		t.Fatal(err)
	}
	updated, err := tracker.Update(t.Context(), created, changed, "two")
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, entry := range updated.Get("metadata", "managedFields").Elements() {
		owners[entry.Get("manager").String()] = string(entry.Get("fieldsV1").Raw())
	}
	if owners["one"] != `{"f:spec":{".":{},"f:f":{},"f:n":{}}}` || owners["two"] != `{"f:spec":{"f:g":{}}}` {
		t.Errorf("owners %v", owners)
	}
}

func TestApply(t *testing.T) {
	live := func(t *testing.T, tracker *Tracker) *document.Document {
		obj, err := tracker.Apply(t.Context(), nil, parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"color":"red","tags":["a"],"num":1.0}}`), "one", false)
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	tests := []struct {
		name, applied, manager string
		force                  bool
		code                   int32
		causes                 int
		contains, lacks        string
	}{
		{name: "the same", applied: `{"color":"red","tags":["a"],"num":1.0}`, manager: "one", contains: `"color":"red"`},
		{name: "spelling of floats", applied: `{"color":"red","tags":["a"],"num":1.0}`, manager: "one", contains: `"num":1.0`},
		{name: "dropped", applied: `{"tags":["a"]}`, manager: "one", lacks: "color"},
		{name: "two conflicts", applied: `{"color":"blue","num":2}`, manager: "two", code: 409, causes: 2},
		{name: "force", applied: `{"color":"blue"}`, manager: "two", force: true, contains: `"color":"blue"`},
		{name: "a set has both", applied: `{"tags":["b"]}`, manager: "two", contains: `["a","b"]`},
		{name: "unknown field", applied: `{"colour":"red"}`, manager: "two", code: 422, causes: 1},
		{name: "duplicates", applied: `{"tags":["b","b"]}`, manager: "two", code: 422, causes: 1},
		{name: "another type", applied: `{"tags":"b"}`, manager: "two", code: 422, causes: 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tracker := newTracker(t, func(c *Config) { c.Types = thingTypes() })
			obj, err := tracker.Apply(t.Context(), live(t, tracker), parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":`+tc.applied+`}`), tc.manager, tc.force)
			if tc.code != 0 {
				var status apierrors.APIStatus
				if !errors.As(err, &status) || status.Status().Code != tc.code || len(status.Status().Details.Causes) != tc.causes {
					t.Fatalf("error %v, want %d with %d causes", err, tc.code, tc.causes)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if text := string(obj.Bytes()); !strings.Contains(text, tc.contains) || tc.lacks != "" && strings.Contains(text, tc.lacks) {
				t.Errorf("applied %s", text)
			}
		})
	}
}

func TestApplyRefuse(t *testing.T) {
	tracker := newTracker(t, func(c *Config) {
		c.Refuse = func(applied *document.Document) (field.ErrorList, error) {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "color"), nil, "no null")}, nil
		}
	})
	_, err := tracker.Apply(t.Context(), nil, parse(t, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`), "one", false)
	if !apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
}

func TestTypesThatCannotBeHad(t *testing.T) {
	tracker := newTracker(t, func(c *Config) {
		c.Types = NewTypes(func() (map[string]*spec.Schema, error) { return nil, errors.New("away") }, false)
	})
	if _, err := tracker.Update(t.Context(), nil, parse(t, `{"metadata":{}}`), "m"); err == nil || !strings.Contains(err.Error(), "merge types: away") {
		t.Errorf("error %v", err)
	}
}
