package codec

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
)

// Diff returns a JSON patch (RFC 6902) that brings the object raw, from which
// v was decoded, to what v says now; nil if v says the same. v is a value or a
// pointer to one. Members that v's type does not know stay as they are, those
// of list elements too.
//
// For that, elements of a list before and after have to be told apart: by
// their key, which is the field tagged `weir:"key"` or else the string "name";
// without one, or if it is not unique, by being equal, and in a list of the
// same length by their place. Where that does not tell and members would be
// lost, it is an error.
func (c *Codec) Diff(raw []byte, v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	for rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	d := differ{codec: c}
	if err := d.value(c.plan(rv.Type()), rv, raw, false); err != nil {
		return nil, err
	}
	if len(d.patch) == 0 {
		return nil, nil
	}
	return append(d.patch, ']'), nil
}

// differ writes a patch.
type differ struct {
	codec *Codec
	patch []byte // of operations, opened with [ or ,
	path  []byte // JSON pointer to what is compared
	depth int

	scratch []byte
}

func (d *differ) op(name string) {
	if len(d.patch) == 0 {
		d.patch = append(d.patch, '[')
	} else {
		d.patch = append(d.patch, ',')
	}
	d.patch = append(append(append(d.patch, `{"op":"`...), name...), `","path":`...)
	d.patch = appendString(d.patch, string(d.path))
}

// set writes an add or replace of the value at the path.
func (d *differ) set(name string, p *plan, v reflect.Value) error {
	d.op(name)
	d.patch = append(d.patch, `,"value":`...)
	patch, err := d.codec.append(d.patch, p, v, d.depth)
	if err != nil {
		return within(err, fieldPath(d.path))
	}
	d.patch = append(patch, '}')
	return nil
}

func (d *differ) remove() {
	d.op("remove")
	d.patch = append(d.patch, '}')
}

// move writes a move of an element of the list at the path.
func (d *differ) move(from, to int) {
	n := d.push(strconv.Itoa(to))
	d.op("move")
	d.pop(n)
	n = d.push(strconv.Itoa(from))
	d.patch = append(appendString(append(d.patch, `,"from":`...), string(d.path)), '}')
	d.pop(n)
}

// push goes down to a member or element; pop with what it returned goes back.
func (d *differ) push(token string) int {
	n := len(d.path)
	d.path = append(d.path, '/')
	if strings.ContainsAny(token, "~/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	d.path = append(d.path, token...)
	return n
}

func (d *differ) pop(n int) { d.path = d.path[:n] }

// fieldPath spells a JSON pointer as a field path.
func fieldPath(pointer []byte) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(pointer), "/"), "/", ".")
}

// put adds or replaces the value at the path. What an array holds is always
// replaced.
func (d *differ) put(p *plan, v reflect.Value, raw []byte) error {
	if len(raw) == 0 {
		return d.set("add", p, v)
	}
	return d.set("replace", p, v)
}

// value compares a value with what stands at the path: raw, empty if nothing
// does. inList says that null is a value there and not absence.
func (d *differ) value(p *plan, v reflect.Value, raw []byte, inList bool) error {
	if d.depth++; d.depth > maxDepth {
		return &Error{Path: fieldPath(d.path), Detail: errDepth.Error()}
	}
	defer func() { d.depth-- }()
	if isAbsent(raw) && p.kind != kindMarshaler {
		if p.unset(v) {
			return nil
		}
		return d.put(p, v, raw)
	}
	switch p.kind {
	case kindPointer:
		if v.IsNil() {
			if inList {
				return d.put(p, v, raw)
			}
			d.remove()
			return nil
		}
		return d.value(p.elem, v.Elem(), raw, inList)
	case kindStruct:
		return d.structure(p, v, raw)
	case kindMap:
		return d.members(p, v, raw)
	case kindSlice, kindArray:
		return d.list(p, v, raw)
	}
	same, err := d.same(p, v, raw)
	if err != nil || same {
		return err
	}
	return d.put(p, v, raw)
}

// same compares a leaf: with what raw decodes to, since a value may be spelled
// in several ways.
func (d *differ) same(p *plan, v reflect.Value, raw []byte) (bool, error) {
	switch p.kind {
	case kindString:
		// A string without escapes is spelled in one way.
		if s := v.String(); len(raw) == len(s)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == s {
			return true, nil
		}
	case kindInt:
		if n, ok := integer(raw); ok {
			return n == v.Int(), nil
		}
	case kindBool:
		return v.Bool() == (raw[0] == 't'), nil
	}
	now, err := d.codec.append(d.scratch[:0], p, v, d.depth)
	if err != nil {
		return false, within(err, fieldPath(d.path))
	}
	d.scratch = now
	if bytes.Equal(now, raw) {
		return true, nil
	}
	if p.kind == kindMarshaler && len(raw) == 0 {
		// Nothing was decoded.
		zero, err := d.codec.append(nil, p, reflect.Zero(p.typ), d.depth)
		return err == nil && bytes.Equal(now, zero), nil
	}
	was := reflect.New(p.typ).Elem()
	dec := decoder{codec: d.codec, scanner: scanner{data: raw}, depth: d.depth}
	if err := dec.decode(p, was); err != nil {
		return false, within(err, fieldPath(d.path))
	}
	before, err := d.codec.append(nil, p, was, d.depth)
	return err == nil && bytes.Equal(now, before), nil
}

func (d *differ) structure(p *plan, v reflect.Value, raw []byte) error {
	values := make([][]byte, len(p.fields))
	next := 0
	if !eachMember(raw, func(name string, value []byte) bool {
		var f *field
		if f, next = p.field(name, next); f != nil {
			values[next-1] = value
		}
		return true
	}) {
		return d.put(p, v, raw)
	}
	for i := range p.fields {
		f := &p.fields[i]
		n := d.push(f.name)
		if err := d.member(f, f.of(v), values[i]); err != nil {
			return err
		}
		d.pop(n)
	}
	return nil
}

// member compares a member of an object.
func (d *differ) member(f *field, v reflect.Value, raw []byte) error {
	if !f.absent(v) {
		return d.value(f.plan, v, raw, false)
	}
	if isAbsent(raw) {
		return nil
	}
	// It is not written any more, unless it says what it said.
	if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface && !(nilable(v) && v.IsNil()) {
		same, err := d.same(f.plan, v, raw)
		if err != nil || same {
			return err
		}
	}
	d.remove()
	return nil
}

func nilable(v reflect.Value) bool {
	return v.Kind() == reflect.Map || v.Kind() == reflect.Slice
}

func (d *differ) members(p *plan, v reflect.Value, raw []byte) error {
	values := map[string][]byte{}
	var names []string
	if !eachMember(raw, func(name string, value []byte) bool {
		if _, ok := values[name]; !ok {
			names = append(names, name)
		}
		values[name] = value
		return true
	}) {
		return d.put(p, v, raw)
	}
	keyType := p.typ.Key()
	for _, name := range names {
		if !v.MapIndex(reflect.ValueOf(name).Convert(keyType)).IsValid() {
			n := d.push(name)
			d.remove()
			d.pop(n)
		}
	}
	for _, key := range sortedKeys(v) {
		e, value := v.MapIndex(key), values[key.String()]
		n := d.push(key.String())
		var err error
		if len(value) == 0 {
			err = d.set("add", p.elem, e)
		} else {
			err = d.value(p.elem, e, value, true)
		}
		if err != nil {
			return err
		}
		d.pop(n)
	}
	return nil
}
