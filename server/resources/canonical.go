package resources

import (
	"encoding/json"
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
)

// Canonicalizer rewrites the quantities of an object in canonical form, as
// upstream's typed decoders do: 0.5 becomes "500m", 1024Mi becomes 1Gi. It has
// to run before validation, for which a quantity is an integer or a string.
// The nil Canonicalizer is that of types without quantities.
type Canonicalizer struct {
	quantity bool
	fields   map[string]*Canonicalizer
	each     *Canonicalizer // items of a list or values of a map
}

// Canonicalizer of a model; nil when it has no quantities.
func (s *Set) Canonicalizer(name string) (*Canonicalizer, error) {
	schema, err := s.ValidationSchema(name)
	if err != nil {
		return nil, err
	}
	return canonicalizer(schema), nil
}

func canonicalizer(s *apiextensionsv1.JSONSchemaProps) *Canonicalizer {
	if s.XIntOrString && s.Format == QuantityFormat {
		return &Canonicalizer{quantity: true}
	}
	c := &Canonicalizer{}
	for name, prop := range s.Properties {
		if child := canonicalizer(&prop); child != nil {
			if c.fields == nil {
				c.fields = map[string]*Canonicalizer{}
			}
			c.fields[name] = child
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		c.each = canonicalizer(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		c.each = canonicalizer(s.AdditionalProperties.Schema)
	}
	if c.fields == nil && c.each == nil {
		return nil
	}
	return c
}

// Apply changes obj, decoded from JSON, in place and reports what is not a
// quantity.
func (c *Canonicalizer) Apply(obj map[string]any) field.ErrorList {
	if c == nil {
		return nil
	}
	_, errs := c.apply(obj, nil)
	return errs
}

// Holds reports whether all quantities of v are in canonical form, so that Apply has nothing to do.
func (c *Canonicalizer) Holds(v document.Value) bool {
	if c == nil {
		return true
	}
	if c.quantity {
		switch v.Kind() {
		case document.Absent, document.Null:
			return true
		case document.String:
			text := v.String()
			quantity, err := resource.ParseQuantity(text)
			return err == nil && quantity.String() == text
		}
		return false
	}
	switch v.Kind() {
	case document.Object:
		for name, child := range c.fields {
			if !child.Holds(v.Get(name)) {
				return false
			}
		}
		if c.each == nil {
			return true
		}
		for _, member := range v.Members() {
			if !c.each.Holds(member) {
				return false
			}
		}
	case document.Array:
		if c.each == nil {
			return true
		}
		for _, element := range v.Elements() {
			if !c.each.Holds(element) {
				return false
			}
		}
	}
	return true
}

// apply gives the value that is to replace value.
func (c *Canonicalizer) apply(value any, path *field.Path) (any, field.ErrorList) {
	if c.quantity {
		return canonicalQuantity(value, path)
	}
	var errs field.ErrorList
	switch v := value.(type) {
	case map[string]any:
		for name, child := range c.fields {
			if old, ok := v[name]; ok {
				changed, childErrs := child.apply(old, path.Child(name))
				v[name], errs = changed, append(errs, childErrs...)
			}
		}
		if c.each == nil {
			break
		}
		for key, old := range v {
			changed, childErrs := c.each.apply(old, path.Key(key))
			v[key], errs = changed, append(errs, childErrs...)
		}
	case []any:
		if c.each == nil {
			break
		}
		for i, old := range v {
			changed, childErrs := c.each.apply(old, path.Index(i))
			v[i], errs = changed, append(errs, childErrs...)
		}
	}
	return value, errs
}

func canonicalQuantity(value any, path *field.Path) (any, field.ErrorList) {
	var source string
	switch v := value.(type) {
	case nil:
		return value, nil // dropped like any other null
	case string:
		source = v
	case int64:
		source = strconv.FormatInt(v, 10)
	case float64:
		source = strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		source = v.String()
	default:
		return value, field.ErrorList{field.TypeInvalid(path, value, fmt.Sprintf("must be a quantity, not %T", value))}
	}
	quantity, err := resource.ParseQuantity(source)
	if err != nil {
		return value, field.ErrorList{field.Invalid(path, value, err.Error())}
	}
	return quantity.String(), nil
}
