package rego

import "github.com/open-policy-agent/opa/v1/ast"

// shapeOf finds what the modules can see of input. Where a variable stands for a part of
// it, as in some c in input.object.spec.containers, and is used for nothing but members of
// it, as in c.image, that is what is seen; else all of that part.
func shapeOf(modules map[string]*ast.Module) *shape {
	s := &shape{}
	for _, name := range sortedNames(modules) {
		for _, rule := range modules[name].Rules {
			r := reader{shape: s, uses: map[ast.Var]int{}, parts: map[ast.Var]ast.Ref{}, binds: map[*ast.Term]bool{}, elements: map[*ast.Term]bool{}}
			r.read(rule)
		}
	}
	s.settle()
	return s
}

// reader finds what one rule sees.
type reader struct {
	shape *shape
	// uses is how often a variable is used by itself, not as the head of a reference.
	uses map[ast.Var]int
	// parts are references that a variable was made equal to.
	parts map[ast.Var]ast.Ref
	// binds are the terms of expressions that make a variable a part, or iterate over one.
	binds map[*ast.Term]bool
	// elements are those of binds of which all elements must be there.
	elements map[*ast.Term]bool
}

func (r *reader) read(rule *ast.Rule) {
	ast.WalkTerms(rule, r.count)
	var iterated []*ast.Every
	ast.WalkExprs(rule, func(x *ast.Expr) bool {
		every, ok := x.Terms.(*ast.Every)
		switch {
		case ok:
			iterated = append(iterated, every)
			r.elementsOf(every.Domain)
		case x.IsCall() && x.Operator().Equal(ast.Count.Ref()):
			r.elementsOf(x.Operand(0))
		}
		return false
	})
	for _, every := range iterated {
		ref, ok := every.Domain.Value.(ast.Ref)
		if v, isVar := every.Domain.Value.(ast.Var); isVar {
			ref, ok = ast.Ref{ast.NewTerm(v)}, true
		}
		if !ok || !r.bind(every.Value, ast.NewTerm(ref.Append(ast.VarTerm("$")))) {
			r.whole(every.Domain)
		}
	}
	ast.WalkExprs(rule, func(x *ast.Expr) bool {
		if x.IsEquality() && len(x.With) == 0 && !r.bind(x.Operand(0), x.Operand(1)) {
			r.bind(x.Operand(1), x.Operand(0))
		}
		return false
	})
	ast.WalkTerms(rule, r.visit)
}

// elementsOf says that of a term only what elements it has is of interest.
func (r *reader) elementsOf(t *ast.Term) {
	r.binds[t], r.elements[t] = true, true
	if v, ok := t.Value.(ast.Var); ok {
		r.uses[v]--
	}
}

// whole takes that back.
func (r *reader) whole(t *ast.Term) {
	delete(r.binds, t)
	if v, ok := t.Value.(ast.Var); ok {
		r.uses[v]++
	}
}

// count counts the uses of variables.
func (r *reader) count(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.Var:
		r.uses[v]++
	case ast.Ref:
		for _, key := range v[1:] {
			ast.WalkTerms(key, r.count)
		}
		return true
	}
	return false
}

// bind makes v a part of input, if it is a variable that is nothing else, too.
func (r *reader) bind(v, ref *ast.Term) bool {
	name, ok := v.Value.(ast.Var)
	part, isRef := ref.Value.(ast.Ref)
	if !ok || !isRef || r.uses[name] != 1 || r.parts[name] != nil {
		return false
	}
	if _, ok := part[0].Value.(ast.Var); !ok || part[0].Equal(ast.DefaultRootDocument) {
		return false
	}
	r.parts[name] = part
	r.binds[ref] = true
	return true
}

// resolve gives the path of a reference below input. ok is false when it does not lead
// there, or nobody knows.
func (r *reader) resolve(ref ast.Ref) (path []*ast.Term, ok bool) {
	if ref[0].Equal(ast.InputRootDocument) {
		return ref[1:], true
	}
	name, isVar := ref[0].Value.(ast.Var)
	if !isVar || r.parts[name] == nil {
		return nil, false
	}
	before, ok := r.resolve(r.parts[name])
	if !ok {
		return nil, false
	}
	return append(before[:len(before):len(before)], ref[1:]...), true
}

// visit adds what a term sees.
func (r *reader) visit(t *ast.Term) bool {
	switch v := t.Value.(type) {
	case ast.Ref:
		if path, ok := r.resolve(v); ok {
			if r.binds[t] {
				if r.elements[t] {
					path = append(path[:len(path):len(path)], ast.VarTerm("$"))
				}
				r.shape.touch(path)
			} else {
				r.shape.add(path)
			}
		}
		for _, key := range v[1:] { // not its head, which by itself is the whole
			ast.WalkTerms(key, r.visit)
		}
		return true
	case ast.Var:
		if v.Equal(ast.InputRootDocument.Value) {
			r.shape.whole = true
		} else if part := r.parts[v]; part != nil && r.binds[t] {
			if path, ok := r.resolve(part); ok {
				r.shape.touch(append(path[:len(path):len(path)], ast.VarTerm("$")))
			}
		}
	}
	return false
}
