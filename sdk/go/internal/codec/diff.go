package codec

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
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
	if err := d.value(c.plan(rv.Type()), rv, &scanner{data: raw}, false); err != nil {
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
	patch []byte     // of operations, opened with [ or ,
	path  []pathStep // to what is compared
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
	d.patch = appendString(d.patch, pointer(d.path))
}

// pathStep goes down to a member, or where name is "" and element set, to an
// element. A path is only spelled where there is a change.
type pathStep struct {
	name    string
	index   int
	element bool
}

// pointer spells a path as a JSON pointer.
func pointer(path []pathStep) string {
	var b []byte
	for _, step := range path {
		b = append(b, '/')
		switch {
		case step.element:
			b = strconv.AppendInt(b, int64(step.index), 10)
		case strings.ContainsAny(step.name, "~/"):
			b = append(b, strings.ReplaceAll(strings.ReplaceAll(step.name, "~", "~0"), "/", "~1")...)
		default:
			b = append(b, step.name...)
		}
	}
	return string(b)
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
	d.pushIndex(to)
	d.op("move")
	d.path[len(d.path)-1].index = from
	d.patch = append(appendString(append(d.patch, `,"from":`...), pointer(d.path)), '}')
	d.pop()
}

// push goes down to a member; pop goes back.
func (d *differ) push(name string) { d.path = append(d.path, pathStep{name: name}) }

// pushIndex goes down to an element.
func (d *differ) pushIndex(i int) { d.path = append(d.path, pathStep{index: i, element: true}) }

func (d *differ) pop() { d.path = d.path[:len(d.path)-1] }

// fieldPath spells a path as that of a field.
func fieldPath(path []pathStep) string {
	return strings.ReplaceAll(strings.TrimPrefix(pointer(path), "/"), "/", ".")
}

// value compares a value with what stands at the path, the value that is next,
// and passes over it; a nil scanner says that nothing does. inList says that
// null is a value there and not absence.
func (d *differ) value(p *plan, v reflect.Value, s *scanner, inList bool) error {
	if d.depth++; d.depth > maxDepth {
		return &Error{Path: fieldPath(d.path), Detail: errDepth.Error()}
	}
	err := d.compare(p, v, s, inList)
	d.depth--
	return err
}

func (d *differ) compare(p *plan, v reflect.Value, s *scanner, inList bool) error {
	if p.kind != kindMarshaler {
		if s == nil {
			if p.unset(v) {
				return nil
			}
			return d.set("add", p, v)
		}
		if s.null() {
			if p.unset(v) {
				return nil
			}
			return d.set("replace", p, v)
		}
	}
	switch p.kind {
	case kindPointer:
		if !v.IsNil() {
			return d.value(p.elem, v.Elem(), s, inList)
		}
		s.value()
		if inList {
			return d.set("replace", p, v)
		}
		d.remove()
		return nil
	case kindStruct:
		return d.structure(p, v, s, false)
	case kindMap:
		return d.members(p, v, s)
	case kindSlice, kindArray:
		return d.list(p, v, s)
	}
	if s == nil {
		same, err := d.same(p, v, nil)
		if err != nil || same {
			return err
		}
		return d.set("add", p, v)
	}
	same, err := d.same(p, v, s.value())
	if err != nil || same {
		return err
	}
	return d.set("replace", p, v)
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

// errMoved says that an element of a list is another than the one at its place.
var errMoved = errors.New("another element")

// structure compares an object. Of an element of a list a changed key is
// errMoved.
func (d *differ) structure(p *plan, v reflect.Value, s *scanner, element bool) error {
	if !s.take('{') {
		s.value()
		return d.set("replace", p, v)
	}
	done := 0 // fields that are compared
	// absent compares the fields before to, which raw does not have.
	absent := func(to int) error {
		for ; done < to; done++ {
			if err := d.field(p, done, v, nil, element); err != nil {
				return err
			}
		}
		return nil
	}
	sorted := true
	for more := !s.take('}'); more; more = s.take(',') {
		if done < len(p.fields) && s.lead(&p.fields[done]) {
			if err := d.field(p, done, v, s, element); err != nil {
				return err
			}
			done++
			continue
		}
		name, ok := s.str()
		if !ok || !s.take(':') {
			return &Error{Path: fieldPath(d.path), Detail: "an object that does not end"}
		}
		f, next := p.field(name, done)
		if f == nil {
			s.value()
			continue
		}
		if next <= done {
			sorted = false
			break
		}
		if err := absent(next - 1); err != nil {
			return err
		}
		if err := d.field(p, done, v, s, element); err != nil {
			return err
		}
		done = next
	}
	if !sorted {
		return &Error{Path: fieldPath(d.path), Detail: "an object whose members are not sorted"}
	}
	s.take('}')
	return absent(len(p.fields))
}

// field compares a member of an object with a field; s is nil if there is
// none.
func (d *differ) field(p *plan, index int, v reflect.Value, s *scanner, element bool) error {
	f := &p.fields[index]
	fv := f.of(v)
	if element && index == p.key {
		var raw []byte
		if s != nil {
			raw = s.value()
		}
		if isAbsent(raw) && fv.IsZero() {
			return nil
		}
		if same, err := d.same(f.plan, fv, raw); err != nil || !same {
			return errMoved
		}
		return nil
	}
	if s == nil && f.absent(fv) {
		return nil
	}
	d.push(f.name)
	err := d.member(f, fv, s)
	d.pop()
	return err
}

// member compares a member of an object with a field.
func (d *differ) member(f *field, v reflect.Value, s *scanner) error {
	if !f.absent(v) {
		return d.value(f.plan, v, s, false)
	}
	raw := s.value()
	if isAbsent(raw) {
		return nil
	}
	// It is not written any more, unless it says what it said.
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
	default:
		if nilable(v) && v.IsNil() {
			break
		}
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

// members compares a map.
func (d *differ) members(p *plan, v reflect.Value, s *scanner) error {
	if !s.take('{') {
		s.value()
		return d.set("replace", p, v)
	}
	var plain map[string]string
	if p.stringMap {
		plain, _ = v.Interface().(map[string]string)
	}
	var names []string
	kept := 0
	for more := !s.take('}'); more; more = s.take(',') {
		name, ok := s.str()
		if !ok || !s.take(':') {
			return &Error{Path: fieldPath(d.path), Detail: "an object that does not end"}
		}
		names = append(names, name)
		if now, ok := plain[name]; ok {
			kept++
			if now == "" && s.null() {
				continue
			}
			start := s.pos
			if was, ok := s.str(); ok && was == now {
				continue
			}
			s.pos = start
		}
		d.push(name)
		if e := v.MapIndex(reflect.ValueOf(name).Convert(p.typ.Key())); e.IsValid() {
			if plain == nil {
				kept++
			}
			if err := d.value(p.elem, e, s, true); err != nil {
				return err
			}
		} else {
			s.value()
			d.remove()
		}
		d.pop()
	}
	s.take('}')
	if kept == v.Len() {
		return nil
	}
	for _, key := range sortedKeys(v) {
		if slices.Contains(names, key.String()) {
			continue
		}
		d.push(key.String())
		if err := d.set("add", p.elem, v.MapIndex(key)); err != nil {
			return err
		}
		d.pop()
	}
	return nil
}
