package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
)

var names = []string{"a", "b", "c", "metadata", "kind"}

// randomSchema returns a structural schema of at most depth levels.
func randomSchema(r *rand.Rand, depth int, root bool) apiextensionsv1.JSONSchemaProps {
	var p apiextensionsv1.JSONSchemaProps
	kind := r.IntN(8)
	if root || depth > 2 {
		kind = r.IntN(3)
	}
	if depth == 0 {
		kind = 3 + r.IntN(5)
	}
	switch kind {
	case 0, 1:
		p.Type = "object"
		p.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
		for _, name := range names[:1+r.IntN(len(names))] {
			if root && (name == "metadata" || name == "kind") {
				continue
			}
			p.Properties[name] = randomSchema(r, depth-1, false)
		}
		if r.IntN(4) == 0 {
			yes := true
			p.XPreserveUnknownFields = &yes
		}
		if !root && r.IntN(6) == 0 {
			p.XEmbeddedResource = true
		}
	case 2:
		p.Type = "object"
		switch r.IntN(4) {
		case 0:
			p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: r.IntN(2) == 0}
		default:
			sub := randomSchema(r, depth-1, false)
			p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &sub}
		}
	case 3:
		p.Type = "array"
		sub := apiextensionsv1.JSONSchemaProps{Type: "string"}
		if depth > 0 {
			sub = randomSchema(r, depth-1, false)
		}
		p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &sub}
	case 4:
		p.XIntOrString = true
	default:
		p.Type = []string{"string", "integer", "boolean", "number"}[r.IntN(4)]
	}
	p.Nullable = r.IntN(4) == 0 && !root
	if !root && r.IntN(3) == 0 {
		p.Default = &apiextensionsv1.JSON{Raw: []byte([]string{`"x"`, `1`, `{}`, `{"a":1}`, `[]`, `true`, `null`}[r.IntN(7)])}
	}
	return p
}

// randomValue returns JSON that often, not always, is of the schema.
func randomValue(r *rand.Rand, p *apiextensionsv1.JSONSchemaProps, depth int) any {
	if r.IntN(12) == 0 {
		return nil
	}
	kind := p.Type
	if r.IntN(10) == 0 || kind == "" {
		kind = []string{"object", "array", "string", "integer", "boolean", "number"}[r.IntN(6)]
	}
	unknown := &apiextensionsv1.JSONSchemaProps{}
	switch kind {
	case "object":
		out := map[string]any{}
		if depth == 0 {
			return out
		}
		for _, name := range append(names, "z") {
			sub := unknown
			if s, ok := p.Properties[name]; ok {
				sub = &s
			} else if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
				sub = p.AdditionalProperties.Schema
			} else if r.IntN(5) > 0 {
				continue
			}
			if r.IntN(4) > 0 {
				out[name] = randomValue(r, sub, depth-1)
			}
		}
		return out
	case "array":
		sub := unknown
		if p.Items != nil {
			sub = p.Items.Schema
		}
		out := []any{}
		for range r.IntN(3) {
			if depth > 0 {
				out = append(out, randomValue(r, sub, depth-1))
			}
		}
		return out
	case "integer":
		return int64(r.IntN(5))
	case "number":
		return 1.5
	case "boolean":
		return true
	}
	return "text"
}

// TestFastPaths compares what the walks over the document decide with what the library does to
// the decoded object: they may say that there is something to do where there is not, never the reverse.
func TestFastPaths(t *testing.T) {
	var pruned, defaulted, kept int
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		props := randomSchema(r, 4, true)
		k, err := New(Config{
			Kind:   schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"},
			Source: func() (*apiextensionsv1.JSONSchemaProps, error) { return &props, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := k.schema()
		if err != nil {
			continue // the random schema is not structural
		}
		for range 5 {
			value := randomValue(r, &props, 5)
			object, ok := value.(map[string]any)
			if !ok {
				continue
			}
			object["kind"], object["apiVersion"] = "Thing", "example.com/v1"
			object["metadata"] = map[string]any{"name": "n"}
			obj, err := document.FromValue(object)
			if err != nil {
				t.Fatal(err)
			}
			got, unknown, err := k.Prune(obj)
			want, wantUnknown, wantErr := libraryPrune(t, obj, s)
			if (err != nil) != wantErr {
				t.Fatalf("seed %d: error %v, library fails: %t\n%s", seed, err, wantErr, describe(props, obj))
			}
			if err != nil {
				continue
			}
			if !got.Equal(want) || !slices.Equal(unknown, wantUnknown) {
				t.Fatalf("seed %d: pruned to %s %q, want %s %q\n%s", seed, got.Bytes(), unknown, want.Bytes(), wantUnknown, describe(props, obj))
			}
			if got == obj {
				kept++
			} else {
				pruned++
			}
			full, err := k.Default(t.Context(), got)
			if err != nil {
				t.Fatal(err)
			}
			m, _ := got.Map()
			defaulting.Default(m, s)
			if want, _ := document.FromValue(m); !full.Equal(want) {
				t.Fatalf("seed %d: defaulted to %s, want %s\n%s", seed, full.Bytes(), want.Bytes(), describe(props, got))
			}
			if full != got {
				defaulted++
			}
		}
	}
	if pruned < 100 || defaulted < 100 || kept < 100 {
		t.Errorf("%d pruned, %d defaulted, %d kept: the test says little", pruned, defaulted, kept)
	}
}

func libraryPrune(t *testing.T, obj *document.Document, s *structuralschema.Structural) (*document.Document, []string, bool) {
	t.Helper()
	m, err := obj.Map()
	if err != nil {
		t.Fatal(err)
	}
	unknown := pruning.PruneWithOptions(m, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(m, s)
	ferr, paths := objectmeta.CoerceWithOptions(nil, m, s, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if ferr != nil {
		return nil, nil, true
	}
	unknown = append(unknown, paths...)
	slices.Sort(unknown)
	out, err := document.FromValue(m)
	if err != nil {
		t.Fatal(err)
	}
	return out, unknown, false
}

func describe(props apiextensionsv1.JSONSchemaProps, obj *document.Document) string {
	text, _ := json.Marshal(props)
	return fmt.Sprintf("schema %s\nobject %s", text, obj.Bytes())
}

// TestPlainMeta checks that metadata that counts as plain is what an ObjectMeta makes of it.
func TestPlainMeta(t *testing.T) {
	values := []any{nil, "", "text", int64(0), int64(3), 1.5, true, map[string]any{}, []any{}, map[string]any{"k": "v"}, map[string]any{"k": int64(1)}, map[string]any{"k": nil},
		[]any{"f"}, []any{nil}, []any{int64(1)}, "2020-01-01T00:00:00Z", "2020-01-01T00:00:00.5Z", "2020-01-01T01:00:00+01:00",
		[]any{map[string]any{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{}}},
		[]any{map[string]any{"manager": "m", "fieldsV1": nil}}, []any{map[string]any{}},
		[]any{map[string]any{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true}},
		[]any{map[string]any{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "other": true}},
		[]any{map[string]any{"apiVersion": "v1", "kind": "K", "uid": "u"}},
	}
	plain := 0
	for _, name := range []string{"name", "namespace", "generateName", "uid", "resourceVersion", "selfLink", "creationTimestamp", "deletionTimestamp",
		"generation", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers", "managedFields", "ownerReferences", "unknown", "Name"} {
		for _, v := range values {
			meta := map[string]any{"name": "n", name: v}
			obj, err := document.FromValue(map[string]any{"metadata": meta})
			if err != nil {
				t.Fatal(err)
			}
			if !isPlainMeta(obj.Get("metadata")) {
				continue
			}
			plain++
			m, _ := obj.Map()
			typed, _, err := objectmeta.GetObjectMeta(m, false)
			if err != nil {
				t.Errorf("%s is plain: %v", obj.Bytes(), err)
				continue
			}
			if err := objectmeta.SetObjectMeta(m, typed); err != nil {
				t.Fatal(err)
			}
			if back, _ := document.FromValue(m); !back.Equal(obj) {
				t.Errorf("%s is plain, but becomes %s", obj.Bytes(), back.Bytes())
			}
		}
	}
	if plain < 20 {
		t.Errorf("only %d are plain", plain)
	}
}
