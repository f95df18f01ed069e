package rego

import (
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// inputsKey is the key of inputs in a policies.Memo.
type inputsKey struct{}

// inputs are the values that were built for the policies of one request.
type inputs struct {
	mu     sync.Mutex
	wholes map[document.Value]*ast.Term // guarded by mu; containers that were built as a whole
	parts  map[document.Value]part      // guarded by mu
}

// part is a document as far as it was built.
type part struct {
	shape *shape
	term  *ast.Term
}

func inputsOf(m *policies.Memo) *inputs {
	return m.Get(inputsKey{}, func() any {
		return &inputs{wholes: map[document.Value]*ast.Term{}, parts: map[document.Value]part{}}
	}).(*inputs)
}

// get returns at least what want says of a document. What was built for another policy is
// used again.
func (in *inputs) get(v document.Value, want *shape) *ast.Term {
	switch v.Kind() {
	case document.Object, document.Array:
	default:
		return term(v)
	}
	have := in.parts[v]
	if have.term != nil && have.shape.covers(want) {
		return have.term
	}
	if have.term != nil {
		both := &shape{}
		both.merge(have.shape)
		both.merge(want)
		both.settle()
		want = both
	}
	have = part{shape: want, term: prune(v, want, in.wholes)}
	in.parts[v] = have
	return have.term
}

// inputTerm builds input as far as seen says.
func inputTerm(r *policies.Review, seen *shape) *ast.Term {
	in := inputsOf(r.Memo)
	in.mu.Lock()
	defer in.mu.Unlock()
	all := [...]struct {
		name  string
		value document.Value
	}{
		{"namespaceObject", r.NamespaceObject},
		{"object", r.Object},
		{"oldObject", r.OldObject},
		{"params", r.Params},
		{"request", r.Request},
		{"settings", r.Settings},
	}
	members := make([][2]*ast.Term, 0, len(all))
	for _, m := range all {
		want := seen.member(m.name)
		if seen.whole {
			want = seen
		}
		if want != nil {
			members = append(members, [2]*ast.Term{ast.InternedTerm(m.name), in.get(m.value, want)})
		}
	}
	return ast.ObjectTerm(members...)
}
