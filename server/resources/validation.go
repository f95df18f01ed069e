package resources

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// QuantityFormat is the format of resource quantities in validation schemas,
// beside x-kubernetes-int-or-string. No validator knows it: it tells
// [Canonicalize] and others where quantities are.
const QuantityFormat = "quantity"

// special gives the schema of a type that has a Go decoder of its own.
func special(name string) (apiextensionsv1.JSONSchemaProps, bool) {
	switch name {
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		return apiextensionsv1.JSONSchemaProps{XIntOrString: true, Format: QuantityFormat}, true
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		return apiextensionsv1.JSONSchemaProps{XIntOrString: true}, true
	case "io.k8s.apimachinery.pkg.runtime.RawExtension":
		return anyValue(), true
	case "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":
		return anyObject(), true
	}
	return apiextensionsv1.JSONSchemaProps{}, false
}

func anyValue() apiextensionsv1.JSONSchemaProps {
	yes := true
	return apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &yes}
}

func anyObject() apiextensionsv1.JSONSchemaProps {
	yes := true
	return apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}
}

// validationSchemas expands schemas into structural ones.
type validationSchemas struct {
	schemas *schemas
	sources []fs.FS

	mu       sync.Mutex
	expanded map[string]*apiextensionsv1.JSONSchemaProps // guarded by mu; schemas outside any recursion
	overlays map[string]map[string]*Overlay              // guarded by mu; by model package, then type
}

func (v *validationSchemas) init(s *schemas, sources []fs.FS) {
	v.schemas, v.sources = s, sources
	v.expanded = map[string]*apiextensionsv1.JSONSchemaProps{}
	v.overlays = map[string]map[string]*Overlay{}
}

// ValidationSchema gives the structural schema that objects of a model are
// pruned, defaulted and validated by. It differs from the published schema as
// upstream's Go code differs from what it publishes:
//
//   - $refs are expanded, and a type within itself accepts anything;
//   - what is required is said by the overlays alone, and they add and remove
//     defaults; among the published defaults are {} of embedded structs and
//     zeros of fields that are never omitted, so that an object gets the fields
//     that a typed encoder would give it;
//   - quantities and int-or-string are x-kubernetes-int-or-string (quantities
//     with [QuantityFormat]: see [Canonicalize] for fractions), times are
//     strings of format date-time;
//   - the root's metadata is a plain object.
//
// No field is nullable. Upstream's typed decoders take null for an absent
// field, and so does what custom resources undergo: nulls of fields that are
// not nullable are dropped, or become the default.
//
// Lists are sets and maps where upstream's Go validation wants their items to
// differ; by the published schema more lists merge by their keys, env for one,
// which may have duplicates. To merge, use the published schema.
//
// The result shares its parts with those of other models: do not change it.
func (s *Set) ValidationSchema(name string) (*apiextensionsv1.JSONSchemaProps, error) {
	s.validation.mu.Lock()
	defer s.validation.mu.Unlock()
	expanded, err := s.validation.expandLocked(name, nil)
	if err != nil {
		return nil, fmt.Errorf("validation schema %s: %w", name, err)
	}
	root := *expanded
	if _, ok := root.Properties["metadata"]; ok {
		err := edit(&root, "metadata", func(m *apiextensionsv1.JSONSchemaProps) {
			*m = apiextensionsv1.JSONSchemaProps{Type: "object"}
		})
		if err != nil {
			return nil, fmt.Errorf("validation schema %s: %w", name, err)
		}
	}
	return &root, nil
}

// expandLocked converts a model; path holds the models around it.
func (v *validationSchemas) expandLocked(name string, path []string) (*apiextensionsv1.JSONSchemaProps, error) {
	if done, ok := v.expanded[name]; ok {
		return done, nil
	}
	if schema, ok := special(name); ok {
		return &schema, nil
	}
	if slices.Contains(path, name) {
		schema := anyObject()
		return &schema, nil
	}
	published, err := v.schemas.get(name)
	if err != nil {
		return nil, err
	}
	schema, err := v.convertLocked(published, append(slices.Clip(path), name))
	if err != nil {
		return nil, err
	}
	overlay, err := v.overlayLocked(name)
	if err != nil {
		return nil, err
	}
	if overlay != nil {
		if err := overlay.apply(&schema); err != nil {
			return nil, fmt.Errorf("overlay %s: %w", name, err)
		}
	}
	v.expanded[name] = &schema
	return &schema, nil
}

func (v *validationSchemas) overlayLocked(name string) (*Overlay, error) {
	pkg, err := modelPackage(name)
	if err != nil {
		return nil, err
	}
	file, ok := v.overlays[pkg]
	if !ok {
		if file, err = readOverlays(v.sources, pkg); err != nil {
			return nil, err
		}
		v.overlays[pkg] = file
	}
	return file[name[len(pkg)+1:]], nil
}

// convertLocked converts a published schema.
func (v *validationSchemas) convertLocked(s *spec.Schema, path []string) (apiextensionsv1.JSONSchemaProps, error) {
	target := s
	if len(s.AllOf) == 1 {
		target = &s.AllOf[0] // a $ref with siblings
	}
	if name, ok := refName(target); ok {
		expanded, err := v.expandLocked(name, path)
		if err != nil {
			return apiextensionsv1.JSONSchemaProps{}, err
		}
		out := *expanded
		if s.Default != nil {
			if err := setDefault(&out, s.Default); err != nil {
				return apiextensionsv1.JSONSchemaProps{}, err
			}
		}
		return out, setExtensions(&out, s)
	}
	if len(s.Type) == 0 {
		return anyValue(), nil
	}
	out := apiextensionsv1.JSONSchemaProps{
		Type: s.Type[0], Format: s.Format, Pattern: s.Pattern,
		Minimum: s.Minimum, Maximum: s.Maximum,
		ExclusiveMinimum: s.ExclusiveMinimum, ExclusiveMaximum: s.ExclusiveMaximum,
		MinLength: s.MinLength, MaxLength: s.MaxLength, MinItems: s.MinItems, MaxItems: s.MaxItems,
		MinProperties: s.MinProperties, MaxProperties: s.MaxProperties,
	}
	for _, value := range s.Enum {
		raw, err := json.Marshal(value)
		if err != nil {
			return out, err
		}
		out.Enum = append(out.Enum, apiextensionsv1.JSON{Raw: raw})
	}
	if s.Default != nil {
		if err := setDefault(&out, s.Default); err != nil {
			return out, err
		}
	}
	if err := v.convertChildrenLocked(&out, s, path); err != nil {
		return out, err
	}
	return out, setExtensions(&out, s)
}

// convertChildrenLocked converts properties, items and additionalProperties.
func (v *validationSchemas) convertChildrenLocked(out *apiextensionsv1.JSONSchemaProps, s *spec.Schema, path []string) error {
	if len(s.Properties) > 0 {
		out.Properties = make(map[string]apiextensionsv1.JSONSchemaProps, len(s.Properties))
	}
	for name, prop := range s.Properties {
		child, err := v.convertLocked(&prop, path)
		if err != nil {
			return err
		}
		if prop.Default == "" && len(child.Enum) > 0 {
			child.Default = nil // which is not one of the values
		}
		out.Properties[name] = child
	}
	if s.Items != nil && s.Items.Schema != nil {
		child, err := v.convertLocked(s.Items.Schema, path)
		if err != nil {
			return err
		}
		child.Default = nil
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &child}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		child, err := v.convertLocked(s.AdditionalProperties.Schema, path)
		if err != nil {
			return err
		}
		child.Default = nil
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &child}
	}
	if s.Type[0] == "object" && len(s.Properties) == 0 && s.AdditionalProperties == nil {
		yes := true
		out.XPreserveUnknownFields = &yes
	}
	return nil
}

func setDefault(out *apiextensionsv1.JSONSchemaProps, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	out.Default = &apiextensionsv1.JSON{Raw: raw}
	return nil
}

// setExtensions takes over the extensions that change how values merge or are
// kept.
func setExtensions(out *apiextensionsv1.JSONSchemaProps, s *spec.Schema) error {
	for name, value := range s.Extensions {
		var target any
		switch name {
		case "x-kubernetes-list-type":
			target = &out.XListType
		case "x-kubernetes-list-map-keys":
			target = &out.XListMapKeys
		case "x-kubernetes-map-type":
			target = &out.XMapType
		default:
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, target); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
