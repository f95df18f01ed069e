package schema

import (
	"encoding/json"
	"fmt"
	"math"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/abi/document"
)

// hasType reports whether v, itself and not what is in it, can be decoded into the Go type that s is of.
// Null can always be.
func hasType(v document.Value, s *structuralschema.Structural) bool {
	kind := v.Kind()
	if kind == document.Null {
		return true
	}
	if s.XIntOrString {
		return kind == document.String || kind == document.Number
	}
	switch s.Type {
	case "object":
		return kind == document.Object
	case "array":
		return kind == document.Array
	case "string":
		return kind == document.String
	case "boolean":
		return kind == document.Bool
	case "number":
		return kind == document.Number
	case "integer":
		n, ok := v.Int()
		return ok && (s.ValueValidation == nil || s.ValueValidation.Format != "int32" || n >= math.MinInt32 && n <= math.MaxInt32)
	}
	return true
}

// checkTypes returns a BadRequest that names the first field that has another type than s.
func (k *Kind) checkTypes(v document.Value, s *structuralschema.Structural) error {
	at, want, found := mismatch(v, s, "")
	if want == "" {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("json: cannot unmarshal %s into field %s%s of type %s", found, k.config.Kind.Kind, at, want))
}

func mismatch(v document.Value, s *structuralschema.Structural, path string) (at, want, found string) {
	if !hasType(v, s) {
		want, found = s.Type, v.Kind().String()
		switch {
		case s.XIntOrString:
			want = "int-or-string"
		case s.ValueValidation != nil && s.ValueValidation.Format != "":
			want = s.ValueValidation.Format
		}
		if v.Kind() == document.Number {
			found += " " + string(v.Raw())
		}
		return path, want, found
	}
	for name, member := range v.Members() {
		if sub, _ := subSchema(s, name); sub != nil {
			if at, want, found = mismatch(member, sub, path+"."+name); want != "" {
				return at, want, found
			}
		}
	}
	if s.Items != nil {
		for i, element := range v.Elements() {
			if at, want, found = mismatch(element, s.Items, fmt.Sprintf("%s[%d]", path, i)); want != "" {
				return at, want, found
			}
		}
	}
	return "", "", ""
}

// Respell returns x with the floats that v has at the same place spelled as v spells them: 1.0 stays 1.0.
// It changes the maps and lists of x.
func Respell(x any, v document.Value) any {
	switch x := x.(type) {
	case map[string]any:
		for name, member := range v.Members() {
			if have, ok := x[name]; ok {
				x[name] = Respell(have, member)
			}
		}
	case []any:
		for i, element := range v.Elements() {
			if i == len(x) {
				break
			}
			x[i] = Respell(x[i], element)
		}
	case float64:
		if f, ok := v.Float(); ok && f == x {
			return json.Number(v.Raw())
		}
	}
	return x
}
