package schema

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
)

func ptr[T any](v T) *T { return &v }

// addRules gives p and what is in it random rules that randomValue often satisfies.
func addRules(r *rand.Rand, p *apiextensionsv1.JSONSchemaProps) {
	switch p.Type {
	case "string":
		switch r.IntN(8) {
		case 0:
			p.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"text"`)}, {Raw: []byte(`"x"`)}}
		case 1:
			p.MinLength, p.MaxLength = ptr(int64(r.IntN(6))), ptr(int64(2+r.IntN(6)))
		case 2:
			p.Pattern = []string{"^t", "^x", "^[a-z]+$"}[r.IntN(3)]
		case 3:
			p.Format = []string{"date-time", "date", "hostname", "unknown"}[r.IntN(4)]
		}
	case "integer", "number":
		switch r.IntN(8) {
		case 0:
			p.Minimum, p.ExclusiveMinimum = ptr(float64(r.IntN(3))), r.IntN(2) == 0
		case 1:
			p.Maximum, p.ExclusiveMaximum = ptr(float64(r.IntN(5))), r.IntN(2) == 0
		case 2:
			p.Format = []string{"int32", "int64", "float", "double"}[r.IntN(4)]
		case 3:
			p.MultipleOf = ptr(2.0)
		}
	case "array":
		switch r.IntN(8) {
		case 0:
			p.MinItems, p.MaxItems = ptr(int64(r.IntN(2))), ptr(int64(1+r.IntN(3)))
		case 1, 2:
			p.XListType = ptr("set")
		case 3, 4:
			if p.Items.Schema.Type == "object" && p.Items.Schema.Properties != nil {
				p.XListType, p.XListMapKeys = ptr("map"), []string{"a", "b"}[:1+r.IntN(2)]
			}
		}
	case "object":
		switch r.IntN(10) {
		case 0:
			p.Required = names[:r.IntN(2)]
		case 1:
			p.MinProperties, p.MaxProperties = ptr(int64(r.IntN(2))), ptr(int64(3+r.IntN(3)))
		}
	case "":
		if p.XIntOrString && r.IntN(2) == 0 {
			p.AnyOf = []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}
		}
	}
	for name, sub := range p.Properties {
		addRules(r, &sub)
		p.Properties[name] = sub
	}
	if p.Items != nil {
		addRules(r, p.Items.Schema)
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		addRules(r, p.AdditionalProperties.Schema)
	}
}

// TestSound compares isSound with the libraries: what it lets through must have no error there.
func TestSound(t *testing.T) {
	var sound, unsure, wrong int
	for seed := range uint64(1200) {
		r := rand.New(rand.NewPCG(seed, 2))
		props := randomSchema(r, 3, true)
		addRules(r, &props)
		k, err := New(Config{
			Kind:   schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"},
			Source: func() (*apiextensionsv1.JSONSchemaProps, error) { return &props, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Compile(); err != nil || k.rules != nil {
			continue // the random schema is not structural
		}
		for range 8 {
			object, ok := randomValue(r, &props, 5).(map[string]any)
			if !ok {
				continue
			}
			object["kind"], object["apiVersion"], object["metadata"] = "Thing", "example.com/v1", map[string]any{"name": "n"}
			obj, err := document.FromValue(object)
			if err != nil {
				t.Fatal(err)
			}
			m, err := obj.Map()
			if err != nil {
				t.Fatal(err)
			}
			errs := append(validation.ValidateCustomResource(nil, m, k.whole), k.validateLists(m, nil)...)
			switch got := k.shape.isSound(obj.Root()); {
			case got && len(errs) > 0:
				t.Fatalf("seed %d: is taken for sound, but %v\n%s", seed, errs.ToAggregate(), describe(props, obj))
			case got:
				sound++
			case len(errs) > 0:
				wrong++
			default:
				unsure++
			}
		}
	}
	if sound < 500 || wrong < 500 || unsure > sound {
		t.Errorf("%d sound, %d wrong, %d left to the library: the test says little", sound, wrong, unsure)
	}
	t.Logf("%d sound, %d wrong, %d left to the library", sound, wrong, unsure)
}

func TestSoundLists(t *testing.T) {
	long := `["0"`
	for i := 1; i < 2*quadratic; i++ {
		long += fmt.Sprintf(",%q", strconv.Itoa(i))
	}
	tests := []struct {
		name, list string
		want       bool
	}{
		{"different", `["a","b",1,true]`, true},
		{"the same", `["a","b","a"]`, false},
		{"numbers whose spelling says nothing", `[1.0,1.00]`, false},
		{"compounds", `[{},{"a":1}]`, false},
		{"long", long + `]`, true},
		{"long and the same", long + `,"0"]`, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d, err := document.Parse([]byte(tc.list))
			if err != nil {
				t.Fatal(err)
			}
			if got := isSet(d.Root()); got != tc.want {
				t.Errorf("isSet(%s) = %t", tc.list, got)
			}
		})
	}
}

// TestSoundLength has bounds that no text reaches, four times which is no int64.
func TestSoundLength(t *testing.T) {
	d, err := document.Parse([]byte(`"text"`))
	if err != nil {
		t.Fatal(err)
	}
	for shortest, want := range map[int64]bool{4: true, 5: false, 1 << 62: false, math.MaxInt64: false} {
		sh := newShape(&structuralschema.Structural{Generic: structuralschema.Generic{Type: "string"},
			ValueValidation: &structuralschema.ValueValidation{MinLength: &shortest}})
		if got := sh.isSound(d.Root()); got != want {
			t.Errorf("minLength %d: got %t, want %t", shortest, got, want)
		}
	}
}

// TestSoundAllocates keeps the validation of an object that has nothing wrong with it free of allocations.
func TestSoundAllocates(t *testing.T) {
	props := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Required: []string{"n"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"n": {Type: "integer", Minimum: ptr(0.0), Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
			"s": {Type: "string", MaxLength: ptr(int64(10)), Pattern: "^[a-z]+$"},
			"l": {Type: "array", XListType: ptr("map"), XListMapKeys: []string{"a"}, Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"a"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string"}}}}},
		}},
	}}
	k, err := New(Config{
		Kind:   schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"},
		Source: func() (*apiextensionsv1.JSONSchemaProps, error) { return &props, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Compile(); err != nil {
		t.Fatal(err)
	}
	obj, err := document.Parse([]byte(`{"apiVersion":"example.com/v1","kind":"Thing","spec":{"n":3,"s":"abc","l":[{"a":"x"},{"a":"y"}]}}`))
	if err != nil || obj.Err() != nil {
		t.Fatal(err, obj.Err())
	}
	n := testing.AllocsPerRun(100, func() {
		pruned, _, err := k.Prune(obj)
		if err != nil || pruned != obj {
			t.Fatal("pruned", err)
		}
		if full, err := k.Default(t.Context(), obj); err != nil || full != obj {
			t.Fatal("defaulted", err)
		}
		if errs, err := k.validate(t.Context(), obj, obj, ""); err != nil || len(errs) > 0 {
			t.Fatal(errs, err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
