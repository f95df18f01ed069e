package schema

import (
	"context"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"

	"weir.dev/weir/abi/document"
)

// Default fills in the defaults of the schema.
func (k *Kind) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	s, err := k.schema()
	if err != nil {
		return nil, err
	}
	if s == nil || isDefaulted(obj.Root(), s) {
		return obj, nil
	}
	m, err := obj.Map()
	if err != nil {
		return nil, err
	}
	defaulting.Default(m, s)
	return document.FromValue(Respell(m, obj.Root()))
}

// isDefaulted reports whether no default of s applies to v.
func isDefaulted(v document.Value, s *structuralschema.Structural) bool {
	switch v.Kind() {
	case document.Object:
		for name, p := range s.Properties {
			if p.Default.Object == nil {
				continue
			}
			member := v.Get(name)
			if !member.Exists() || (member.Kind() == document.Null && !p.Nullable) {
				return false
			}
		}
		for name, member := range v.Members() {
			if p, ok := s.Properties[name]; ok {
				if !isDefaulted(member, &p) {
					return false
				}
				continue
			}
			if s.AdditionalProperties == nil || s.AdditionalProperties.Structural == nil {
				continue
			}
			sub := s.AdditionalProperties.Structural
			if member.Kind() == document.Null && !sub.Nullable && sub.Default.Object != nil {
				return false
			}
			if !isDefaulted(member, sub) {
				return false
			}
		}
	case document.Array:
		if s.Items == nil {
			return true
		}
		for _, element := range v.Elements() {
			if element.Kind() == document.Null && !s.Items.Nullable && s.Items.Default.Object != nil {
				return false
			}
			if !isDefaulted(element, s.Items) {
				return false
			}
		}
	}
	return true
}
