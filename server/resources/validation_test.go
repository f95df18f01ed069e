package resources

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func internalSchema(t testing.TB, set *Set, name string) *apiextensions.JSONSchemaProps {
	t.Helper()
	v1, err := set.ValidationSchema(name)
	if err != nil {
		t.Fatal(err)
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, internal, nil); err != nil {
		t.Fatal(err)
	}
	return internal
}

// defaultAndValidate does what a write of a custom resource undergoes.
func defaultAndValidate(t testing.TB, set *Set, name string, obj map[string]any) field.ErrorList {
	t.Helper()
	internal := internalSchema(t, set, name)
	s, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	c, err := set.Canonicalizer(name)
	if err != nil {
		t.Fatal(err)
	}
	errs := c.Apply(obj)
	pruning.Prune(obj, s, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s)
	defaulting.Default(obj, s)
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		t.Fatal(err)
	}
	errs = append(errs, validation.ValidateCustomResource(nil, obj, validator)...)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, s, obj)...)
}

// TestValidationSchemas: upstream's structural schema machinery accepts the
// validation schema of every kind.
func TestValidationSchemas(t *testing.T) {
	set := builtinSet(t)
	for _, d := range set.Definitions() {
		for _, v := range d.Versions {
			t.Run(d.Resource+"."+v.Name+"."+d.Group, func(t *testing.T) {
				s, err := structuralschema.NewStructural(internalSchema(t, set, v.SchemaName))
				if err != nil {
					t.Fatal(err)
				}
				for _, err := range structuralschema.ValidateStructural(nil, s) {
					t.Error(err)
				}
			})
		}
	}
}

// TestDefaults: testdata/defaults/<case>.yaml has a schema name, an object and
// what becomes of it: the defaulted object (without CEL rules) and errors.
func TestDefaults(t *testing.T) {
	set := builtinSet(t)
	names, err := filepath.Glob("testdata/defaults/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tc := struct {
				Schema string          `json:"schema"`
				Object json.RawMessage `json:"object"`
				Want   json.RawMessage `json:"want"`
				Errors []string        `json:"errors"`
			}{}
			if err := yaml.UnmarshalStrict(data, &tc); err != nil {
				t.Fatal(err)
			}
			var obj, want map[string]any
			if err := utiljson.Unmarshal(tc.Object, &obj); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range defaultAndValidate(t, set, tc.Schema, obj) {
				got = append(got, err.Error())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.Errors, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if len(tc.Want) == 0 {
				return
			}
			if err := utiljson.Unmarshal(tc.Want, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, obj); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSharedParts: the overlay of one model does not change another's.
func TestSharedParts(t *testing.T) {
	set := builtinSet(t)
	before, err := set.ValidationSchema("io.k8s.api.core.v1.PersistentVolumeClaim")
	if err != nil {
		t.Fatal(err)
	}
	snapshot := before.DeepCopy()
	if _, err := set.ValidationSchema("io.k8s.api.apps.v1.StatefulSet"); err != nil {
		t.Fatal(err)
	}
	after, err := set.ValidationSchema("io.k8s.api.core.v1.PersistentVolumeClaim")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(snapshot, after); diff != "" {
		t.Error(diff)
	}
	if after.Properties["kind"].Default != nil {
		t.Error("a StatefulSet's default is in a claim")
	}
}
