package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// maxWeight bounds how many values a rule's value may hold for each that it is made of.
const maxWeight = 1 << 14

// exponential finds a rule whose value is made of others that it holds several times, as
// those hold theirs: a := [x, x]; b := [a, a]; …. Such a value takes little to build and
// for ever to compare, since all that it holds many times is compared as often. Rules that
// iterate are no matter: that takes steps.
func exponential(modules map[string]*ast.Module) (*ast.Location, bool) {
	w := weigher{rules: map[string][]*ast.Rule{}, known: map[*ast.Rule]float64{}}
	for _, name := range sortedNames(modules) {
		for _, rule := range modules[name].Rules {
			key := rule.Ref().GroundPrefix().String()
			w.rules[key] = append(w.rules[key], rule)
		}
	}
	for _, name := range sortedNames(modules) {
		for _, rule := range modules[name].Rules {
			if w.rule(rule) > maxWeight {
				return rule.Location, true
			}
		}
	}
	return nil, false
}

// weigher weighs values: a variable or part of the input by itself is 1.
type weigher struct {
	rules map[string][]*ast.Rule // by the ground part of their reference
	known map[*ast.Rule]float64
}

// scope has the weights of the variables of a body and of those around it.
type scope map[ast.Var]float64

func (w *weigher) rule(rule *ast.Rule) float64 {
	if n, ok := w.known[rule]; ok {
		return n
	}
	w.known[rule] = 1 // rules do not depend on themselves
	heaviest := 1.0
	for r := rule; r != nil; r = r.Else {
		vars := scope{}
		inner := w.body(r.Body, vars)
		n := 0.0
		for _, t := range []*ast.Term{r.Head.Key, r.Head.Value} {
			if t != nil {
				n += w.term(t, vars)
			}
		}
		heaviest = max(heaviest, n, inner)
	}
	w.known[rule] = heaviest
	return heaviest
}

// body weighs what a body binds to variables, and returns the heaviest.
func (w *weigher) body(body ast.Body, vars scope) float64 {
	heaviest := 1.0
	bind := func(t *ast.Term, n float64) {
		if v, ok := t.Value.(ast.Var); ok {
			vars[v] = max(vars[v], n)
		}
		heaviest = max(heaviest, n)
	}
	for _, x := range body {
		switch terms := x.Terms.(type) {
		case []*ast.Term:
			if x.IsEquality() {
				left, right := x.Operand(0), x.Operand(1)
				l, r := w.term(left, vars), w.term(right, vars)
				bind(left, r)
				bind(right, l)
				continue
			}
			n, calls := 0.0, 1.0
			if ref, ok := terms[0].Value.(ast.Ref); ok {
				calls = w.ref(ref, vars)
			}
			for _, t := range terms[1:max(1, len(terms)-1)] {
				n += w.term(t, vars)
			}
			if scalar(x.Operator()) {
				n = 1
			}
			bind(terms[len(terms)-1], max(1, n)*calls)
		case *ast.Term:
			heaviest = max(heaviest, w.term(terms, vars))
		case *ast.Every:
			heaviest = max(heaviest, w.body(terms.Body, vars))
		}
	}
	return heaviest
}

// scalar reports whether a function is one whose results hold nothing.
func scalar(operator ast.Ref) bool {
	b := ast.BuiltinMap[operator.String()]
	if b == nil || b.Decl.Result() == nil {
		return false
	}
	switch b.Decl.Result().(type) {
	case types.Number, types.Boolean, types.String, types.Null:
		return true
	}
	return false
}

func (w *weigher) term(t *ast.Term, vars scope) (n float64) {
	add := func(t *ast.Term) { n += w.term(t, vars) }
	switch v := t.Value.(type) {
	case ast.Var:
		return max(1, vars[v])
	case ast.Ref:
		return w.ref(v, vars)
	case *ast.Array:
		v.Foreach(add)
	case ast.Set:
		v.Foreach(add)
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) { add(key); add(value) })
	case *ast.ArrayComprehension:
		n = max(w.body(v.Body, vars), w.term(v.Term, vars))
	case *ast.SetComprehension:
		n = max(w.body(v.Body, vars), w.term(v.Term, vars))
	case *ast.ObjectComprehension:
		n = max(w.body(v.Body, vars), w.term(v.Key, vars)+w.term(v.Value, vars))
	}
	return max(1, n)
}

// ref weighs what a reference leads to: part of a variable, or of a rule's value.
func (w *weigher) ref(ref ast.Ref, vars scope) float64 {
	if v, ok := ref[0].Value.(ast.Var); ok && !ref[0].Equal(ast.DefaultRootDocument) {
		return max(1, vars[v])
	}
	heaviest := 1.0
	ground := ref.GroundPrefix()
	for n := len(ground); n > 1; n-- {
		if rules, ok := w.rules[ground[:n].String()]; ok {
			for _, rule := range rules {
				heaviest = max(heaviest, w.rule(rule))
			}
			return heaviest
		}
	}
	// A package: all that is below it.
	prefix := ground.String()
	for _, name := range sortedKeys(w.rules) {
		if len(name) > len(prefix) && name[:len(prefix)] == prefix {
			for _, rule := range w.rules[name] {
				heaviest += w.rule(rule)
			}
		}
	}
	return heaviest
}

func sortedKeys(m map[string][]*ast.Rule) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
