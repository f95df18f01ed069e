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
// no default go too, silently, as upstream drops them. What has another type than a field of a
// built-in kind is a BadRequest, as it is to a decoder of Go types.
func (k *Kind) Prune(obj *document.Document) (*document.Document, []string, error) {
	obj, unknown, err := pruneMeta(obj)
	if err != nil {
		return nil, nil, err
	}
	pruned, more, err := k.pruneFields(obj)
	if err != nil {
		return nil, nil, err
	}
	if unknown = append(unknown, more...); len(unknown) > 1 {
		slices.Sort(unknown)
	}
	return pruned, unknown, nil
}

// pruneFields is Prune for everything but metadata.
func (k *Kind) pruneFields(obj *document.Document) (*document.Document, []string, error) {
	s, err := k.schema()
	if err != nil {
		return nil, nil, err
	}
	if s == nil || k.config.PreserveUnknown || k.isPruned(obj.Root(), k.shape, true) {
		return obj, nil, nil
	}
	if k.config.DropNulls {
		if err := k.checkTypes(obj.Root(), s); err != nil {
			return nil, nil, err
		}
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
	pruned, err := document.FromValue(Respell(m, obj.Root()))
	return pruned, append(unknown, paths...), err
}

// isPruned reports whether pruneFields has nothing to do to v. It may report false for a v
// that needs no change, never true for one that does.
func (k *Kind) isPruned(v document.Value, sh *shape, root bool) bool {
	if k.config.DropNulls && !hasType(v, sh.s) {
		return false
	}
	switch v.Kind() {
	case document.Object:
		if sh.s.XEmbeddedResource {
			return false
		}
		for name, member := range v.Members() {
			if root && (name == "metadata" || name == "apiVersion" || name == "kind") {
				continue
			}
			sub, known := sh.member(name)
			if !known {
				return false
			}
			if sub == nil {
				if sh.s.AdditionalProperties != nil && isContainer(member) {
					return false // what is below a plain `true` is unknown
				}
				continue
			}
			if member.Kind() == document.Null {
				if k.config.DropNulls || !sub.s.Nullable {
					return false
				}
				continue
			}
			if !k.isPruned(member, sub, false) {
				return false
			}
		}
	case document.Array:
		for _, element := range v.Elements() {
			switch {
			case sh.items != nil:
				if !k.isPruned(element, sh.items, false) {
					return false
				}
			case isContainer(element) && !sh.s.XPreserveUnknownFields:
				return false
			}
		}
	}
	return true
}

func isContainer(v document.Value) bool {
	return v.Kind() == document.Object || v.Kind() == document.Array
}

// subSchema returns the schema of a member. known is false for a field to prune; a nil schema
// with known set is that of a member about which nothing is said.
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
