package codec

import (
	"reflect"
	"strconv"
)

// UnknownField is a member that a type has no field for.
type UnknownField struct {
	// Path of the member, limits.cpu.
	Path string
	// Name of the member, the last of the path.
	Name string
	// Known are the names of the fields that there are beside it, sorted.
	Known []string
}

// Unknown returns the members of data that the type that v points to has no field
// for, in their order. What is of another type than the field's is passed over:
// Decode says so.
func (c *Codec) Unknown(data []byte, v any) []UnknownField {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil
	}
	u := unknowns{scanner: scanner{data: data}}
	u.walk(c.plan(t.Elem()), "", 0)
	return u.found
}

type unknowns struct {
	scanner
	found []UnknownField
}

// walk passes one value.
func (u *unknowns) walk(p *plan, at string, depth int) {
	for p.kind == kindPointer {
		p = p.elem
	}
	next := u.peek()
	switch {
	case depth > maxDepth:
		u.value()
	case p.kind == kindStruct && next == '{':
		u.members(func(name string) {
			f, _ := p.field(name, 0)
			if f == nil {
				u.found = append(u.found, UnknownField{Path: below(at, name), Name: name, Known: p.names()})
				u.value()
				return
			}
			u.walk(f.plan, below(at, name), depth+1)
		})
	case p.kind == kindMap && next == '{':
		u.members(func(name string) { u.walk(p.elem, at+mapStep(name), depth+1) })
	case (p.kind == kindSlice || p.kind == kindArray) && next == '[':
		for i, element := range Elements(u.value()) {
			inner := unknowns{scanner: scanner{data: element}}
			inner.walk(p.elem, at+"["+strconv.Itoa(i)+"]", depth+1)
			u.found = append(u.found, inner.found...)
		}
	default:
		u.value()
	}
}

// members passes an object, which is next; each passes the value of a member.
func (u *unknowns) members(each func(name string)) {
	u.take('{')
	for {
		name, ok := u.str()
		if !ok || !u.take(':') {
			return // empty, or it does not end, as Decode says
		}
		each(name)
		if !u.take(',') {
			u.take('}')
			return
		}
	}
}

// names are those of the fields, sorted.
func (p *plan) names() []string {
	names := make([]string, len(p.fields))
	for i := range p.fields {
		names[i] = p.fields[i].name
	}
	return names
}

func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
