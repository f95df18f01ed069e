package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// Field is a field that selectors may name.
type Field struct {
	// Name in selectors, e.g. spec.nodeName.
	Name string
	// Path from the root of the object; "" is Name.
	Path string
	// Default is the value of objects that lack the field.
	Default string
}

// Fields returns fields whose names are their paths.
func Fields(names ...string) []Field {
	out := make([]Field, len(names))
	for i, n := range names {
		out[i].Name = n
	}
	return out
}

// AttrFunc returns the function that reads labels and selectable fields from a served
// object: metadata.name, for a namespaced resource metadata.namespace, and selectable.
func AttrFunc(namespaced bool, selectable []Field) (storage.AttrFunc, error) {
	parsed := make([]document.Path, len(selectable))
	for i, f := range selectable {
		path := f.Path
		if path == "" {
			path = f.Name
		}
		var err error
		if parsed[i], err = document.ParsePath(strings.TrimPrefix(path, ".")); err != nil {
			return nil, fmt.Errorf("selectable field %q: %w", f.Name, err)
		}
	}
	selectable = slices.Clone(selectable)
	scratches := sync.Pool{New: func() any { return new(document.Scratch) }}
	return func(value []byte) (labels.Set, fields.Set, error) {
		scratch := scratches.Get().(*document.Scratch)
		defer scratches.Put(scratch)
		obj := scratch.FromCanonical(value)
		m := rest.MetaOf(obj)
		if m.Value().Kind() != document.Object {
			return nil, nil, errors.New("object has no metadata")
		}
		set := make(fields.Set, len(parsed)+2)
		set["metadata.name"] = m.Name()
		if namespaced {
			set["metadata.namespace"] = m.Namespace()
		}
		for i, p := range parsed {
			f := &selectable[i]
			if set[f.Name] = fieldText(obj.Root().QueryFirst(p)); set[f.Name] == "" {
				set[f.Name] = f.Default
			}
		}
		return m.Labels(), set, nil
	}, nil
}

// UpgradedAttrs returns an AttrFunc that reads what attrs reads of the object that is shown of a row. One that cannot be upgraded
// is read as it is stored.
func UpgradedAttrs(attrs storage.AttrFunc, upgrade func(*document.Document) (*document.Document, error)) storage.AttrFunc {
	return func(value []byte) (labels.Set, fields.Set, error) {
		if obj, err := upgrade(document.FromCanonical(value)); err == nil {
			value = obj.Bytes()
		}
		return attrs(value)
	}
}

// fieldText spells a scalar as a field selector does.
func fieldText(v document.Value) string {
	switch v.Kind() {
	case document.String:
		return v.String()
	case document.Bool, document.Number:
		return string(v.Raw())
	}
	return ""
}
