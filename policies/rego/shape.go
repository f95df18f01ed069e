package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// shape is the part of a value that a policy can see: all of it, or some members of an
// object, or that part of each member and element.
type shape struct {
	whole   bool
	members map[string]*shape
	// each is seen of every member or element, beside what members says. nil: nothing.
	each *shape
}

// member is what is seen of the member of that name; nil: nothing.
func (s *shape) member(name string) *shape {
	if sub := s.members[name]; sub != nil { // what each says is in it: see add and settle
		return sub
	}
	return s.each
}

// add adds what a reference sees: the terms behind its head, and all that is there.
func (s *shape) add(path []*ast.Term) { s.touch(path).whole = true }

// touch adds that there is something behind a path, which it returns.
func (s *shape) touch(path []*ast.Term) *shape {
	for _, t := range path {
		if key, ok := t.Value.(ast.String); ok {
			if s.members == nil {
				s.members = map[string]*shape{}
			}
			if s.members[string(key)] == nil {
				s.members[string(key)] = &shape{}
			}
			s = s.members[string(key)]
			continue
		}
		if s.each == nil { // a variable; or a number, which only elements have
			s.each = &shape{}
		}
		s = s.each
	}
	return s
}

// merge adds what other sees.
func (s *shape) merge(other *shape) {
	s.whole = s.whole || other.whole
	for name, sub := range other.members {
		if s.members == nil {
			s.members = map[string]*shape{}
		}
		if s.members[name] == nil {
			s.members[name] = &shape{}
		}
		s.members[name].merge(sub)
	}
	if other.each != nil {
		if s.each == nil {
			s.each = &shape{}
		}
		s.each.merge(other.each)
	}
}

// settle completes a shape: what is seen of each member is seen of those with a name, and
// what is below a whole is of no interest.
func (s *shape) settle() {
	if s.whole {
		s.members, s.each = nil, nil
		return
	}
	for _, sub := range s.members {
		if s.each != nil {
			sub.merge(s.each)
		}
		sub.settle()
	}
	if s.each != nil {
		s.each.settle()
	}
}

// covers reports whether all that other sees is seen. Both are settled.
func (s *shape) covers(other *shape) bool {
	if s.whole {
		return true
	}
	if other.whole || other.each != nil && (s.each == nil || !s.each.covers(other.each)) {
		return false
	}
	for name, sub := range other.members {
		if mine := s.member(name); mine == nil || !mine.covers(sub) {
			return false
		}
	}
	return true
}

// paths lists what is seen, as input.object.spec.containers[*].image.
func (s *shape) paths(prefix string) []string {
	if s.whole || len(s.members) == 0 && s.each == nil {
		return []string{prefix}
	}
	var out []string
	for name, sub := range s.members {
		at := prefix + "." + name
		if strings.ContainsAny(name, `.[]"'/`) {
			at = prefix + "['" + name + "']"
		}
		out = append(out, sub.paths(at)...)
	}
	if s.each != nil {
		out = append(out, s.each.paths(prefix+"[*]")...)
	}
	slices.Sort(out)
	return out
}
