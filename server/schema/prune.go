package schema

import (
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/abi/document"
)

// Prune implements rest.Schema. Members that are null where the schema allows no null and has
// no default go too, silently, as upstream drops them.
func (k *Kind) Prune(obj *document.Document) (*document.Document, []string, error) {
	s, err := k.schema()
	if err != nil {
		return nil, nil, err
	}
	if s == nil || k.config.PreserveUnknown {
		return obj, nil, nil
	}
	if k.isPruned(obj.Root(), s, true) {
		return obj, nil, nil
	}
	m, err := obj.Map()
	if err != nil {
		return nil, nil, err
	}
	unknown := pruning.PruneWithOptions(m, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if k.config.DropNulls {
		dropNulls(m, s)
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(m, s)
	ferr, paths := objectmeta.CoerceWithOptions(nil, m, s, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if ferr != nil {
		return nil, nil, apierrors.NewBadRequest(ferr.Error())
	}
	unknown = append(unknown, paths...)
	slices.Sort(unknown)
	pruned, err := document.FromValue(m)
	return pruned, unknown, err
}

// isPruned reports whether Prune has nothing to do to v. It may report false for a v
// that needs no change, never true for one that does.
func (k *Kind) isPruned(v document.Value, s *structuralschema.Structural, root bool) bool {
	switch v.Kind() {
	case document.Object:
		if s.XEmbeddedResource {
			return false
		}
		for name, member := range v.Members() {
			if root && (name == "metadata" || name == "apiVersion" || name == "kind") {
				continue
			}
			sub, known := subSchema(s, name)
			if !known {
				return false
			}
			if sub == nil {
				continue // kept as it is
			}
			if member.Kind() == document.Null {
				if k.config.DropNulls || !sub.Nullable {
					return false
				}
				continue
			}
			if !k.isPruned(member, sub, false) {
				return false
			}
		}
	case document.Array:
		if s.Items == nil {
			return true
		}
		for _, element := range v.Elements() {
			if !k.isPruned(element, s.Items, false) {
				return false
			}
		}
	}
	return true
}

// subSchema returns the schema of a member. known is false for a field to prune; a nil schema
// with known set means that anything below is kept.
func subSchema(s *structuralschema.Structural, name string) (sub *structuralschema.Structural, known bool) {
	if p, ok := s.Properties[name]; ok {
		return &p, true
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural, s.AdditionalProperties.Structural != nil || s.AdditionalProperties.Bool
	}
	return nil, s.XPreserveUnknownFields
}

// dropNulls removes null members that s knows.
func dropNulls(x any, s *structuralschema.Structural) {
	switch x := x.(type) {
	case map[string]any:
		for name, member := range x {
			sub, known := subSchema(s, name)
			if !known || sub == nil {
				continue
			}
			if member == nil {
				delete(x, name)
				continue
			}
			dropNulls(member, sub)
		}
	case []any:
		if s.Items != nil {
			for _, element := range x {
				dropNulls(element, s.Items)
			}
		}
	}
}
