package codec

import (
	"encoding/base64"
	"errors"
	"reflect"
	"strconv"
)

// Error says where a value could not be read.
type Error struct {
	// Path of the value, spec.containers[0].name; empty for the whole.
	Path string
	// Value as it stands; nil if there is none.
	Value []byte
	// Detail says what is wrong.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Detail
	}
	return e.Path + ": " + e.Detail
}

// Decode reads JSON into what v, a pointer, points to. Strings share the
// memory of data, which must not be changed any more. An error is an [Error].
func (c *Codec) Decode(data []byte, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return &Error{Detail: "decode into what is no pointer"}
	}
	d := decoder{codec: c, scanner: scanner{data: data}}
	if err := d.decode(c.plan(rv.Type().Elem()), rv.Elem()); err != nil {
		return err
	}
	if d.peek(); d.pos != len(data) {
		return &Error{Detail: "more than one value"}
	}
	return nil
}

type decoder struct {
	scanner
	codec *Codec
	depth int
}

// wrong is the error for the value that is next.
func (d *decoder) wrong(want string) error {
	raw := d.value()
	return &Error{Value: raw, Detail: typeName(raw) + " where " + want + " is expected"}
}

func typeName(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// within prefixes an error's path.
func within(err error, step string) error {
	var e *Error
	if errors.As(err, &e) {
		if e.Path == "" || e.Path[0] == '[' {
			e.Path = step + e.Path
		} else {
			e.Path = step + "." + e.Path
		}
	}
	return err
}

func (d *decoder) decode(p *plan, v reflect.Value) error {
	if d.depth++; d.depth > maxDepth {
		return &Error{Detail: errDepth.Error()}
	}
	err := d.read(p, v)
	d.depth--
	return err
}

func (d *decoder) read(p *plan, v reflect.Value) error {
	if p.kind == kindMarshaler {
		raw := d.value()
		if u, ok := v.Addr().Interface().(unmarshaler); ok {
			if err := u.UnmarshalJSON(raw); err != nil {
				return &Error{Value: raw, Detail: err.Error()}
			}
			return nil
		}
		return &Error{Value: raw, Detail: p.typ.String() + " has no UnmarshalJSON"}
	}
	if d.null() {
		v.SetZero()
		return nil
	}
	switch p.kind {
	case kindString:
		s, ok := d.str()
		if !ok {
			return d.wrong("a string")
		}
		v.SetString(s)
	case kindBool:
		switch d.peek() {
		case 't', 'f':
			v.SetBool(d.value()[0] == 't')
		default:
			return d.wrong("a boolean")
		}
	case kindInt, kindUint, kindFloat:
		return d.number(p, v)
	case kindText:
		s, ok := d.str()
		if !ok {
			return d.wrong("a string")
		}
		u, ok := v.Addr().Interface().(textReader)
		if !ok {
			return &Error{Detail: p.typ.String() + " has no UnmarshalText"}
		}
		if err := u.UnmarshalText([]byte(s)); err != nil {
			return &Error{Value: appendString(nil, s), Detail: err.Error()}
		}
	case kindBytes:
		s, ok := d.str()
		if !ok {
			return d.wrong("a string")
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return &Error{Value: appendString(nil, s), Detail: err.Error()}
		}
		v.SetBytes(b)
	case kindAny:
		x, err := d.any()
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(x))
	case kindPointer:
		if v.IsNil() {
			v.Set(reflect.New(p.typ.Elem()))
		}
		return d.decode(p.elem, v.Elem())
	case kindSlice, kindArray:
		return d.list(p, v)
	case kindMap:
		return d.members(p, v)
	case kindStruct:
		return d.structure(p, v)
	default:
		return &Error{Detail: p.typ.String() + " is not supported"}
	}
	return nil
}

func (d *decoder) number(p *plan, v reflect.Value) error {
	if c := d.peek(); c != '-' && (c < '0' || c > '9') {
		if p.kind == kindFloat {
			return d.wrong("a number")
		}
		return d.wrong("an integer")
	}
	start := d.pos
	d.skipWord()
	raw := d.data[start:d.pos]
	fail := func(detail string) error { return &Error{Value: raw, Detail: detail} }
	bits := v.Type().Bits()
	switch p.kind {
	case kindInt:
		n, ok := integer(raw)
		if !ok {
			return fail("not an integer of 64 bits")
		}
		if v.OverflowInt(n) {
			return fail("does not fit in " + strconv.Itoa(bits) + " bits")
		}
		v.SetInt(n)
	case kindUint:
		n, err := strconv.ParseUint(string(raw), 10, bits)
		if err != nil {
			return fail("not an unsigned integer of " + strconv.Itoa(bits) + " bits")
		}
		v.SetUint(n)
	default:
		f, err := strconv.ParseFloat(string(raw), bits)
		if err != nil {
			return fail("not a number of " + strconv.Itoa(bits) + " bits")
		}
		v.SetFloat(f)
	}
	return nil
}

// integer parses a decimal integer.
func integer(raw []byte) (int64, bool) {
	digits := raw
	negative := len(raw) > 0 && raw[0] == '-'
	if negative {
		digits = raw[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		return n, err == nil
	}
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

func (d *decoder) list(p *plan, v reflect.Value) error {
	if !d.take('[') {
		return d.wrong("an array")
	}
	if p.kind == kindArray {
		v.SetZero()
	} else {
		v.Set(reflect.MakeSlice(p.typ, 0, 0))
	}
	if d.take(']') {
		return nil
	}
	for n := 0; ; n++ {
		if p.kind == kindArray {
			if n >= v.Len() {
				return &Error{Detail: "more than " + strconv.Itoa(v.Len()) + " elements"}
			}
		} else {
			if v.Cap() == n {
				v.Grow(max(4, n))
			}
			v.SetLen(n + 1)
			v.Index(n).SetZero()
		}
		if err := d.decode(p.elem, v.Index(n)); err != nil {
			return within(err, "["+strconv.Itoa(n)+"]")
		}
		if !d.take(',') {
			break
		}
	}
	if !d.take(']') {
		return &Error{Detail: "an array that does not end"}
	}
	return nil
}

func (d *decoder) members(p *plan, v reflect.Value) error {
	if !d.take('{') {
		return d.wrong("an object")
	}
	var plain map[string]string
	if p.stringMap {
		plain = map[string]string{}
		v.Set(reflect.ValueOf(plain))
	} else {
		v.Set(reflect.MakeMap(p.typ))
	}
	if d.take('}') {
		return nil
	}
	for {
		name, ok := d.str()
		if !ok || !d.take(':') {
			return &Error{Detail: "an object that does not end"}
		}
		if p.stringMap {
			s, ok := d.str()
			if !ok && !d.null() {
				return within(d.wrong("a string"), mapStep(name))
			}
			plain[name] = s
		} else {
			e := reflect.New(p.typ.Elem()).Elem()
			if err := d.decode(p.elem, e); err != nil {
				return within(err, mapStep(name))
			}
			v.SetMapIndex(reflect.ValueOf(name).Convert(p.typ.Key()), e)
		}
		if !d.take(',') {
			break
		}
	}
	if !d.take('}') {
		return &Error{Detail: "an object that does not end"}
	}
	return nil
}

func mapStep(key string) string { return "[" + key + "]" }

func (d *decoder) structure(p *plan, v reflect.Value) error {
	if !d.take('{') {
		return d.wrong("an object")
	}
	if d.take('}') {
		return nil
	}
	next := 0
	for {
		var f *field
		name := ""
		if next < len(p.fields) && d.lead(&p.fields[next]) {
			f = &p.fields[next]
			name, next = f.name, next+1
		} else {
			var ok bool
			if name, ok = d.str(); !ok || !d.take(':') {
				return &Error{Detail: "an object that does not end"}
			}
			f, next = p.field(name, next)
		}
		if f != nil {
			if err := d.decode(f.plan, f.of(v)); err != nil {
				return within(err, name)
			}
		} else {
			d.value()
		}
		if !d.take(',') {
			break
		}
	}
	if !d.take('}') {
		return &Error{Detail: "an object that does not end"}
	}
	return nil
}

// any reads the value that is next, which is not null, into Go's own types.
func (d *decoder) any() (any, error) {
	decode := func(v any) error {
		e := reflect.ValueOf(v).Elem()
		return d.decode(d.codec.plan(e.Type()), e)
	}
	switch c := d.peek(); {
	case c == '{':
		m := map[string]any{}
		err := decode(&m)
		return m, err
	case c == '[':
		l := []any{}
		err := decode(&l)
		return l, err
	case c == '"':
		s, ok := d.str()
		if !ok {
			return "", d.wrong("a string")
		}
		return s, nil
	case c == 't', c == 'f':
		return d.value()[0] == 't', nil
	case c == '-' || c >= '0' && c <= '9':
		start := d.pos
		raw := d.value()
		if n, ok := integer(raw); ok {
			return n, nil
		}
		d.pos = start
		var f float64
		err := decode(&f)
		return f, err
	}
	return nil, d.wrong("a value")
}
