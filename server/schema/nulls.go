package schema

import (
	"bytes"
	"fmt"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
)

// Nulls returns an error for every member of obj that is null where the schema allows no null and has no
// default for it. Prune drops them; an apply, which would then own what is not there, refuses them.
func (k *Kind) Nulls(obj *document.Document) (field.ErrorList, error) {
	s, err := k.schema()
	if err != nil || s == nil || !bytes.Contains(obj.Bytes(), []byte("null")) {
		return nil, err
	}
	return nulls(obj.Root(), s, nil), nil
}

func nulls(v document.Value, s *structuralschema.Structural, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, member := range v.Members() {
		sub, _ := subSchema(s, name)
		if sub == nil || path == nil && name == "metadata" {
			continue
		}
		at := path.Child(name)
		if member.Kind() == document.Null && !sub.Nullable && sub.Default.Object == nil {
			errs = append(errs, field.TypeInvalid(at, "null", fmt.Sprintf("%s in body must be of type %s: \"null\"", at, sub.Type)))
			continue
		}
		errs = append(errs, nulls(member, sub, at)...)
	}
	if s.Items != nil {
		for i, element := range v.Elements() {
			errs = append(errs, nulls(element, s.Items, path.Index(i))...)
		}
	}
	return errs
}
