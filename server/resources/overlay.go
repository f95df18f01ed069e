package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Overlay is what upstream's Go code says about one type beyond its published
// schema. A file of overlays maps type names, without the model package, to
// overlays. Paths are relative to the type; [*] stands for the items of a
// list: "template.spec.containers[*].image". A path that the schema does not
// have is an error.
type Overlay struct {
	// Defaults are unconditional defaults by path.
	Defaults map[string]any `json:"defaults,omitempty"`
	// NoDefaults removes defaults that the published schema or the overlay of
	// a part of this type has.
	NoDefaults []string `json:"noDefaults,omitempty"`
	// Required lists fields that must be there and not be empty: strings have
	// at least one character, lists one item. Of the published schema's
	// required lists nothing is enforced, as upstream enforces nothing.
	Required []string `json:"required,omitempty"`
	// AllowEmpty lists enumerated strings that may also be empty.
	AllowEmpty []string `json:"allowEmpty,omitempty"`
	// AllowDuplicates lists lists whose items need not differ in their keys,
	// though they merge by them. They become atomic in the validation schema.
	AllowDuplicates []string `json:"allowDuplicates,omitempty"`
	// NoEnum lists enumerated strings that may hold any value.
	NoEnum []string `json:"noEnum,omitempty"`
}

// readOverlays reads the overlays of a model package from all sources.
func readOverlays(sources []fs.FS, pkg string) (map[string]*Overlay, error) {
	all := map[string]*Overlay{}
	for _, source := range sources {
		data, err := fs.ReadFile(source, "overlays/"+pkg+".yaml")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		file := map[string]*Overlay{}
		if err := yaml.UnmarshalStrict(data, &file); err != nil {
			return nil, fmt.Errorf("overlays %s: %w", pkg, err)
		}
		maps.Copy(all, file)
	}
	return all, nil
}

// apply changes schema, whose nested schemas may be shared: it copies what is
// on the way to a change.
func (o *Overlay) apply(schema *apiextensionsv1.JSONSchemaProps) error {
	for _, path := range slices.Sorted(maps.Keys(o.Defaults)) {
		value, err := json.Marshal(o.Defaults[path])
		if err != nil {
			return err
		}
		if err := edit(schema, path, func(s *apiextensionsv1.JSONSchemaProps) {
			s.Default = &apiextensionsv1.JSON{Raw: value}
		}); err != nil {
			return err
		}
	}
	for _, path := range o.NoDefaults {
		if err := edit(schema, path, func(s *apiextensionsv1.JSONSchemaProps) { s.Default = nil }); err != nil {
			return err
		}
	}
	for _, path := range o.AllowEmpty {
		if err := edit(schema, path, func(s *apiextensionsv1.JSONSchemaProps) {
			s.Enum = append(slices.Clone(s.Enum), apiextensionsv1.JSON{Raw: []byte(`""`)})
		}); err != nil {
			return err
		}
	}
	for _, path := range o.AllowDuplicates {
		if err := edit(schema, path, func(s *apiextensionsv1.JSONSchemaProps) {
			s.XListType, s.XListMapKeys = nil, nil
		}); err != nil {
			return err
		}
	}
	for _, path := range o.NoEnum {
		if err := edit(schema, path, func(s *apiextensionsv1.JSONSchemaProps) { s.Enum = nil }); err != nil {
			return err
		}
	}
	for _, path := range o.Required {
		if err := require(schema, path); err != nil {
			return err
		}
	}
	return nil
}

// require makes the field at path required, not empty, and without default.
func require(schema *apiextensionsv1.JSONSchemaProps, path string) error {
	one := int64(1)
	if err := edit(schema, path, func(s *apiextensionsv1.JSONSchemaProps) {
		if s.Type != "object" {
			s.Default = nil // an empty struct stays, so that what it lacks is reported
		}
		switch {
		case s.Type == "string" && len(s.Enum) == 0:
			s.MinLength = &one
		case s.Type == "array":
			s.MinItems = &one
		}
	}); err != nil {
		return err
	}
	parent, name := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	return edit(schema, parent, func(s *apiextensionsv1.JSONSchemaProps) {
		s.Required = append(slices.Clone(s.Required), name)
		slices.Sort(s.Required)
	})
}

// edit calls change on a copy of the schema at path and puts the copy in
// place, without changing maps and schemas that others may hold. The empty
// path is schema itself, which belongs to the caller.
func edit(schema *apiextensionsv1.JSONSchemaProps, path string, change func(*apiextensionsv1.JSONSchemaProps)) error {
	if path == "" {
		change(schema)
		return nil
	}
	head, rest, _ := strings.Cut(path, ".")
	name, isList := strings.CutSuffix(head, "[*]")
	child, ok := schema.Properties[name]
	if !ok {
		return fmt.Errorf("path %q: no field %q", path, name)
	}
	if isList {
		if child.Items == nil || child.Items.Schema == nil {
			return fmt.Errorf("path %q: %q is not a list", path, name)
		}
		item := *child.Items.Schema
		if err := edit(&item, rest, change); err != nil {
			return err
		}
		child.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	} else if err := edit(&child, rest, change); err != nil {
		return err
	}
	schema.Properties = maps.Clone(schema.Properties)
	schema.Properties[name] = child
	return nil
}
