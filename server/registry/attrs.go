package registry

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// AttrFunc returns the function that reads labels and selectable fields from a served
// object: metadata.name, for a namespaced resource metadata.namespace, and those at
// paths (`spec.nodeName`, without a leading dot), "" where an object has none.
func AttrFunc(namespaced bool, paths []string) (storage.AttrFunc, error) {
	parsed := make([]document.Path, len(paths))
	for i, p := range paths {
		var err error
		if parsed[i], err = document.ParsePath(strings.TrimPrefix(p, ".")); err != nil {
			return nil, fmt.Errorf("selectable field %q: %w", p, err)
		}
	}
	return func(value []byte) (labels.Set, fields.Set, error) {
		obj := document.FromCanonical(value)
		m := rest.MetaOf(obj)
		if m.Value().Kind() != document.Object {
			return nil, nil, fmt.Errorf("object has no metadata")
		}
		set := make(fields.Set, len(paths)+2)
		set["metadata.name"] = m.Name()
		if namespaced {
			set["metadata.namespace"] = m.Namespace()
		}
		for i, p := range parsed {
			set[paths[i]] = fieldText(obj.Root().QueryFirst(p))
		}
		return m.Labels(), set, nil
	}, nil
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
