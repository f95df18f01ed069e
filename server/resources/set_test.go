package resources

import (
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

func builtinSet(t testing.TB) *Set {
	t.Helper()
	start := time.Now()
	set, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("loaded in %v", time.Since(start))
	return set
}

func structural(t testing.TB, set *Set, name string) *structuralschema.Structural {
	t.Helper()
	v1, err := set.ValidationSchema(name)
	if err != nil {
		t.Fatal(err)
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestValidationSchemas: upstream's structural schema machinery accepts the
// validation schema of every kind.
func TestValidationSchemas(t *testing.T) {
	set := builtinSet(t)
	for _, d := range set.Definitions() {
		for _, v := range d.Versions {
			t.Run(d.Resource+"."+v.Name+"."+d.Group, func(t *testing.T) {
				s := structural(t, set, v.SchemaName)
				for _, err := range structuralschema.ValidateStructural(nil, s) {
					t.Error(err)
				}
			})
		}
	}
}
