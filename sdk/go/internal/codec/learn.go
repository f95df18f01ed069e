package codec

import "reflect"

// Learn prepares for values of the type that v is, or points to: it decodes,
// compares and encodes one that has everything the type has. A guest does so
// before its memory is captured, so that no call pays for what is done once:
// plans, method tables and the allocator's first page of each size are a
// multiple of what a call costs.
func (c *Codec) Learn(v any) {
	t := reflect.TypeOf(v)
	if t == nil {
		return
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	c.mu.Lock()
	_, known := c.plans[t]
	c.mu.Unlock()
	if known {
		return
	}
	p := c.plan(t)
	if p.kind == kindUnsupported {
		return
	}
	raw := p.example(nil, 0)
	value := reflect.New(t)
	d := decoder{codec: c, scanner: scanner{data: raw}}
	if d.decode(p, value.Elem()) != nil {
		return
	}
	// What comes of it does not matter.
	_, _ = c.Diff(raw, value.Interface())
	_, _ = c.Diff([]byte("{}"), value.Interface())
}

// example appends a value of the type, with two elements in each list.
func (p *plan) example(b []byte, depth int) []byte {
	const deepest = 12 // of a type that contains itself
	if depth > deepest {
		return append(b, "null"...)
	}
	switch p.kind {
	case kindMarshaler:
		return append(b, p.exampleText()...)
	case kindBool:
		return append(b, "true"...)
	case kindInt, kindUint, kindFloat:
		return append(b, '1')
	case kindString:
		return append(b, `"example"`...)
	case kindBytes:
		return append(b, `"YQ=="`...)
	case kindAny:
		return append(b, `{"a":["b",1,true]}`...)
	case kindPointer:
		return p.elem.example(b, depth+1)
	case kindSlice:
		b = p.elem.example(append(b, '['), depth+1)
		return append(p.elem.example(append(b, ','), depth+1), ']')
	case kindMap:
		return append(p.elem.example(append(b, `{"a":`...), depth+1), '}')
	case kindStruct:
		b = append(b, '{')
		for i := range p.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, p.fields[i].name), ':')
			b = p.fields[i].plan.example(b, depth+1)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

// exampleText finds what an Unmarshaler takes.
func (p *plan) exampleText() string {
	u, ok := reflect.New(p.typ).Interface().(unmarshaler)
	if ok {
		for _, text := range []string{`"1"`, `1`, `{}`, `[]`} {
			if u.UnmarshalJSON([]byte(text)) == nil {
				return text
			}
		}
	}
	return "null"
}

// Outline returns the paths of what the struct that v points to can hold of an
// object: its members, and for metadata, of which most is managedFields, the
// members of that. It is nil if the whole object had better be read.
func (c *Codec) Outline(v any) []Member {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil
	}
	p := c.plan(t.Elem())
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.outlined {
		return p.outline
	}
	p.outlined = true
	const most = 16 // queries
	n := 0
	for i := range p.fields {
		f := &p.fields[i]
		m := Member{Name: f.name, Lead: append(appendString(nil, f.name), ':')}
		if f.name == "metadata" && f.plan.kind == kindStruct {
			m.Inner = []Member{}
			for j := range f.plan.fields {
				name := f.plan.fields[j].name
				m.Inner = append(m.Inner, Member{Name: name, Lead: append(appendString(nil, name), ':')})
			}
			n += len(m.Inner)
		}
		n++
		p.outline = append(p.outline, m)
	}
	if n > most {
		p.outline = nil
	}
	return p.outline
}

// Member is a member of an object.
type Member struct {
	Name string
	// Lead is the quoted name and a colon.
	Lead []byte
	// Inner are the members of the member that matter; nil: all.
	Inner []Member
}
