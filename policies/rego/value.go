package rego

import (
	"encoding/json"

	"github.com/open-policy-agent/opa/v1/ast"

	"weir.dev/weir/abi/document"
)

// term builds the whole of a value. An Absent one is null. Strings share the document's
// memory.
func term(v document.Value) *ast.Term {
	switch v.Kind() {
	case document.Bool:
		b, _ := v.Bool()
		return ast.InternedTerm(b)
	case document.Number:
		raw := v.Raw()
		if len(raw) <= 2 { // small numbers are shared
			if i, ok := v.Int(); ok && string(raw) != "-0" && ast.HasInternedIntNumberTerm(int(i)) {
				return ast.InternedTerm(int(i))
			}
		}
		return ast.NumberTerm(json.Number(raw))
	case document.String:
		return ast.InternedTerm(v.String())
	case document.Array:
		elements := make([]*ast.Term, 0, v.Len())
		for _, e := range v.Elements() {
			elements = append(elements, term(e))
		}
		return ast.ArrayTerm(elements...)
	case document.Object:
		members := make([][2]*ast.Term, 0, v.Len())
		for name, e := range v.Members() {
			members = append(members, [2]*ast.Term{ast.InternedTerm(name), term(e)})
		}
		return ast.ObjectTerm(members...)
	case document.Absent, document.Null:
	}
	return ast.InternedNullTerm
}

// prune builds the members of a value that shape names. memo has the values that were
// built as a whole.
func prune(v document.Value, shape *shape, memo map[document.Value]*ast.Term) *ast.Term {
	if k := v.Kind(); shape.whole || k != document.Object && k != document.Array {
		if k := v.Kind(); k != document.Object && k != document.Array {
			return term(v)
		}
		t, ok := memo[v]
		if !ok {
			t = term(v)
			memo[v] = t
		}
		return t
	}
	if v.Kind() == document.Array {
		elements := make([]*ast.Term, 0, v.Len())
		for _, e := range v.Elements() {
			if shape.each == nil { // nobody looks at them; there are as many
				elements = append(elements, ast.InternedNullTerm)
				continue
			}
			elements = append(elements, prune(e, shape.each, memo))
		}
		return ast.ArrayTerm(elements...)
	}
	members := make([][2]*ast.Term, 0, min(v.Len(), len(shape.members)))
	for name, e := range v.Members() {
		if sub := shape.member(name); sub != nil {
			members = append(members, [2]*ast.Term{ast.InternedTerm(name), prune(e, sub, memo)})
		}
	}
	return ast.ObjectTerm(members...)
}
