package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	weirschema "weir.dev/weir/server/schema"
)

var _ rest.Merger = (*Tracker)(nil)

// Merge implements rest.Merger. A configuration that names a list, map or struct that is atomic is refused: it would
// remove what it does not name.
func (t *Tracker) Merge(_ context.Context, obj, configuration *document.Document) (*document.Document, error) {
	if err := t.init(); err != nil {
		return nil, err
	}
	live, err := t.object(obj)
	if err != nil {
		return nil, err
	}
	patch, err := t.object(configuration)
	if err != nil {
		return nil, err
	}
	patch.SetGroupVersionKind(live.GroupVersionKind())
	typedPatch, err := t.types.ObjectToTyped(patch)
	if err != nil {
		return nil, fmt.Errorf("configuration does not fit the kind: %w", err)
	}
	if atomics := findAtomics(nil, typedPatch.Schema(), typedPatch.TypeRef(), typedPatch.AsValue()); len(atomics) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %s", strings.Join(atomics, ", "))
	}
	typedLive, err := t.types.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("object does not fit its kind: %w", err)
	}
	merged, err := typedLive.Merge(typedPatch)
	if err != nil {
		return nil, fmt.Errorf("failed to merge: %w", err)
	}
	result, err := t.types.TypedToObject(merged)
	if err != nil {
		return nil, fmt.Errorf("failed to merge: %w", err)
	}
	u, ok := result.(*unstructured.Unstructured)
	if !ok {
		return nil, errors.New("failed to merge: the result is not an object")
	}
	weirschema.Respell(u.Object, configuration.Root())
	weirschema.Respell(u.Object, obj.Root())
	return document.FromValue(u.Object)
}

// findAtomics returns the paths of the atomic lists, maps and structs that v has, but for the object itself.
func findAtomics(path fieldpath.Path, s *schema.Schema, ref schema.TypeRef, v value.Value) []string {
	atom, ok := s.Resolve(ref)
	if !ok || v == nil {
		return nil
	}
	var found []string
	if v.IsMap() && atom.Map != nil {
		if atom.Map.ElementRelationship == schema.Atomic {
			found = append(found, path.String())
		}
		v.AsMap().Iterate(func(key string, member value.Value) bool {
			element := atom.Map.ElementType
			if f, ok := atom.Map.FindField(key); ok {
				element = f.Type
			}
			found = append(found, findAtomics(append(path[:len(path):len(path)], fieldpath.PathElement{FieldName: &key}), s, element, member)...)
			return true
		})
	}
	if v.IsList() && atom.List != nil {
		if atom.List.ElementRelationship == schema.Atomic {
			found = append(found, path.String())
		}
		list := v.AsList()
		for i := range list.Length() {
			found = append(found, findAtomics(append(path[:len(path):len(path)], fieldpath.PathElement{Index: &i}), s, atom.List.ElementType, list.At(i))...)
		}
	}
	return found
}
