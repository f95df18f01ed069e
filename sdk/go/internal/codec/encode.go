package codec

import (
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Append appends the JSON of v.
func (c *Codec) Append(b []byte, v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return append(b, "null"...), nil
	}
	return c.append(b, c.plan(rv.Type()), rv, 0)
}

func (c *Codec) append(b []byte, p *plan, v reflect.Value, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, &Error{Detail: errDepth.Error()}
	}
	switch p.kind {
	case kindMarshaler:
		m, ok := pointerTo(v).Interface().(marshaler)
		if !ok {
			return nil, &Error{Detail: p.typ.String() + " has no MarshalJSON"}
		}
		raw, err := m.MarshalJSON()
		if err != nil {
			return nil, &Error{Detail: err.Error()}
		}
		return append(b, raw...), nil
	case kindText:
		m, ok := pointerTo(v).Interface().(textWriter)
		if !ok {
			return nil, &Error{Detail: p.typ.String() + " has no MarshalText"}
		}
		text, err := m.MarshalText()
		if err != nil {
			return nil, &Error{Detail: err.Error()}
		}
		return appendString(b, string(text)), nil
	case kindString:
		return appendString(b, v.String()), nil
	case kindBool:
		return strconv.AppendBool(b, v.Bool()), nil
	case kindInt:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case kindUint:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case kindFloat:
		return appendFloat(b, v.Float(), v.Type().Bits())
	case kindBytes:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, v.Bytes())
		return append(b, '"'), nil
	case kindAny, kindPointer:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		e := v.Elem()
		if p.kind == kindAny {
			return c.append(b, c.plan(e.Type()), e, depth+1)
		}
		return c.append(b, p.elem, e, depth+1)
	case kindSlice, kindArray:
		if p.kind == kindSlice && v.IsNil() {
			return append(b, "null"...), nil
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = c.append(b, p.elem, v.Index(i), depth+1); err != nil {
				return nil, within(err, "["+strconv.Itoa(i)+"]")
			}
		}
		return append(b, ']'), nil
	case kindMap:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		b = append(b, '{')
		for i, key := range sortedKeys(v) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, key.String()), ':')
			var err error
			if b, err = c.append(b, p.elem, v.MapIndex(key), depth+1); err != nil {
				return nil, within(err, mapStep(key.String()))
			}
		}
		return append(b, '}'), nil
	case kindStruct:
		b = append(b, '{')
		empty := true
		for i := range p.fields {
			f := &p.fields[i]
			fv := f.of(v)
			if f.absent(fv) {
				continue
			}
			if !empty {
				b = append(b, ',')
			}
			empty = false
			b = append(appendString(b, f.name), ':')
			var err error
			if b, err = c.append(b, f.plan, fv, depth+1); err != nil {
				return nil, within(err, f.name)
			}
		}
		return append(b, '}'), nil
	}
	return nil, &Error{Detail: p.typ.String() + " is not supported"}
}

// pointerTo returns a pointer to v, or to a copy of it.
func pointerTo(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v.Addr()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// appendFloat spells a number as encoding/json does.
func appendFloat(b []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, &Error{Detail: "not a number that JSON has"}
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, bits), nil
}

// AppendString appends the JSON of a string.
func AppendString(b []byte, s string) []byte { return appendString(b, s) }

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
