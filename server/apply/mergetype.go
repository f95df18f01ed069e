package apply

import (
	"slices"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"weir.dev/weir/abi/document"
)

// mergeType is a type of structured-merge-diff, resolved for the walks over documents. A value may be of any of the
// forms that the type has.
type mergeType struct {
	// scalar is "" where values may be no scalars.
	scalar smd.Scalar

	isMap bool
	// mapAtomic maps are owned as a whole.
	mapAtomic bool
	// fields are the named members; others are of type element, nil where there are no others.
	fields  map[string]*mergeType
	element *mergeType

	isList bool
	// listAtomic lists are owned as a whole; others by their elements.
	listAtomic bool
	item       *mergeType
	// keys tell the elements of a list apart, sorted; without any the elements are a set.
	keys []string
}

// mergeTypes resolves the types of one schema. Types may refer to themselves.
type mergeTypes struct {
	schema *smd.Schema
	named  map[string]*mergeType
}

// resolve returns nil for a type that is not known.
func (m *mergeTypes) resolve(ref smd.TypeRef) *mergeType {
	plain := ref.NamedType != nil && ref.ElementRelationship == nil
	if plain {
		if t := m.named[*ref.NamedType]; t != nil {
			return t
		}
	}
	atom, ok := m.schema.Resolve(ref)
	if !ok {
		return nil
	}
	t := &mergeType{}
	if plain {
		m.named[*ref.NamedType] = t
	}
	if atom.Scalar != nil {
		t.scalar = *atom.Scalar
	}
	if atom.Map != nil {
		t.isMap, t.mapAtomic = true, atom.Map.ElementRelationship == smd.Atomic
		t.fields = make(map[string]*mergeType, len(atom.Map.Fields))
		for i := range atom.Map.Fields {
			t.fields[atom.Map.Fields[i].Name] = m.resolve(atom.Map.Fields[i].Type)
		}
		if atom.Map.ElementType != (smd.TypeRef{}) {
			t.element = m.resolve(atom.Map.ElementType)
		}
	}
	if atom.List != nil {
		t.isList, t.listAtomic = true, atom.List.ElementRelationship == smd.Atomic
		t.item, t.keys = m.resolve(atom.List.ElementType), slices.Sorted(slices.Values(atom.List.Keys))
	}
	return t
}

// member returns the type of a member of a map, nil where it may have none of that name, and whether it is a field.
func (t *mergeType) member(name string) (sub *mergeType, field bool) {
	if sub, ok := t.fields[name]; ok {
		return sub, true
	}
	return t.element, false
}

// isLeaf reports whether v, of type t, is owned as a whole.
func (t *mergeType) isLeaf(v document.Value) bool {
	switch v.Kind() {
	case document.Object:
		return t.mapAtomic
	case document.Array:
		return t.listAtomic
	}
	return true
}

// fits reports whether v is of type t, with all that is in it. It may report false for a v that is: nulls, elements
// without their keys and compounds in sets are for the library to judge.
func (t *mergeType) fits(v document.Value) bool {
	if t == nil {
		return false
	}
	switch v.Kind() {
	case document.String:
		return t.scalar == smd.String || t.scalar == smd.Untyped
	case document.Number:
		return t.scalar == smd.Numeric || t.scalar == smd.Untyped
	case document.Bool:
		return t.scalar == smd.Boolean || t.scalar == smd.Untyped
	case document.Object:
		if !t.isMap {
			return false
		}
		for name, member := range v.Members() {
			if sub, _ := t.member(name); !sub.fits(member) {
				return false
			}
		}
		return true
	case document.Array:
		if !t.isList {
			return false
		}
		for _, element := range v.Elements() {
			if !t.item.fits(element) || !t.listAtomic && !t.isItem(element) {
				return false
			}
		}
		return true
	}
	return false
}

// isItem reports whether an element of a list that is not atomic says which one it is.
func (t *mergeType) isItem(element document.Value) bool {
	for _, key := range t.keys {
		if !isPlain(element.Get(key)) {
			return false
		}
	}
	return len(t.keys) > 0 || isPlain(element)
}

// isPlain reports whether v is an integer, or a string that JSON spells without escapes however it is encoded.
func isPlain(v document.Value) bool {
	switch v.Kind() {
	case document.Number:
		_, ok := v.Int()
		return ok && string(v.Raw()) != "-0"
	case document.String:
		text := v.String()
		return isPlainText(text, `"\<>&`)
	}
	return false
}

// isPlainText reports whether text is of printable ASCII characters, those in without excepted.
func isPlainText(text, without string) bool {
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' {
			return false
		}
		for k := range len(without) {
			if c == without[k] {
				return false
			}
		}
	}
	return true
}
