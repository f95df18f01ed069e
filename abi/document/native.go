package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Map returns the document's root, an Object, as a fresh map, as sigs.k8s.io/json
// decodes it: see Value.Interface.
func (d *Document) Map() (map[string]any, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	m, ok := d.Root().Interface().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("document is of kind %s, not object", d.Root().Kind())
	}
	return m, nil
}

// Interface returns the value as a fresh tree of nil, bool, int64, float64, string,
// []any and map[string]any. An Absent value is nil. A number is an int64 when Int
// reads it, else a float64. Maps and slices are the caller's to change; strings share
// the document's memory.
func (v Value) Interface() any {
	switch v.Kind() {
	case Bool:
		b, _ := v.Bool()
		return b
	case Number:
		if i, ok := v.Int(); ok {
			return i
		}
		f, _ := v.Float()
		return f
	case String:
		return v.String()
	case Array:
		// Recursion is no deeper than MaxDepth.
		list := make([]any, 0, v.Len())
		for _, e := range v.Elements() {
			list = append(list, e.Interface())
		}
		return list
	case Object:
		m := make(map[string]any, v.Len())
		for c := membersOf(v); c.more(); c.advance() {
			m[c.name()] = c.value().Interface()
		}
		return m
	}
	return nil
}

// FromValue returns the Document of a Go value: nil, bool, string, every integer and
// float, json.Number, json.RawMessage, *Document, Value, []any, []string,
// map[string]any and map[string]string, and anything else that json.Marshal takes.
//
// Floats are spelled as encoding/json spells them, without a point when they are
// integral and below 1e21: read back, float64(1) is the int64 1, as it is upstream.
// A string that is not valid UTF-8, NaN, an infinity, and a value that is nested
// deeper than MaxDepth, as one that contains itself, are errors.
func FromValue(v any) (*Document, error) {
	switch v := v.(type) {
	case *Document:
		if err := v.Err(); err != nil {
			return nil, err
		}
		return v, nil
	case Value:
		if !v.Exists() {
			return nil, errAbsent
		}
		return v.Document(), nil
	}
	raw, err := appendValue(nil, v, 0)
	if err != nil {
		return nil, err
	}
	return FromCanonical(raw), nil
}

// appendValue appends the canonical JSON of v, which depth containers enclose.
func appendValue(dst []byte, v any, depth int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendText(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case float64:
		return appendFloat(dst, v)
	case json.Number:
		return appendNumber(dst, v)
	case []any:
		return appendList(dst, v, depth)
	case []string:
		return appendList(dst, v, depth)
	case map[string]any:
		return appendMap(dst, v, depth)
	case map[string]string:
		return appendMap(dst, v, depth)
	case *Document:
		return appendDocument(dst, v, depth)
	case Value:
		return appendDocument(dst, v.Document(), depth)
	case json.RawMessage:
		if v == nil {
			return append(dst, "null"...), nil
		}
		return appendParsed(dst, v, depth)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("value of type %T: %w", v, err)
	}
	return appendParsed(dst, raw, depth)
}

func appendParsed(dst, raw []byte, depth int) ([]byte, error) {
	d, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	return appendDocument(dst, d, depth)
}

func appendDocument(dst []byte, d *Document, depth int) ([]byte, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	if err := checkDepth(depth, d.text()); err != nil {
		return nil, err
	}
	return append(dst, d.text()...), nil
}

// checkDepth reports an error when canonical JSON within depth containers is nested
// too deep.
func checkDepth(depth int, raw []byte) error {
	if depth > MaxDepth {
		return errDepth
	}
	if depth+len(raw)/2 < MaxDepth { // n bytes nest at most n/2 containers
		return nil
	}
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return errDepth
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func appendText(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("string %s is not valid UTF-8", quoteText(s))
	}
	return appendQuoted(dst, s), nil
}

func appendList[E any](dst []byte, list []E, depth int) ([]byte, error) {
	if list == nil {
		return append(dst, "null"...), nil
	}
	if depth >= MaxDepth {
		return nil, errDepth
	}
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, e, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendMap[E any](dst []byte, m map[string]E, depth int) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
	}
	if depth >= MaxDepth {
		return nil, errDepth
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendText(dst, name); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = appendValue(dst, m[name], depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendFloat spells f as encoding/json does, which follows ECMAScript.
func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("number %v has no JSON spelling", f)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if n := len(dst); format == 'e' && n >= 4 && string(dst[n-4:n-1]) == "e-0" { // e-09 to e-9
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst, nil
}

func appendNumber(dst []byte, n json.Number) ([]byte, error) {
	raw := []byte(n)
	if len(raw) == 0 {
		return append(dst, '0'), nil // as encoding/json has it
	}
	if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
		if end, err := scanNumber(raw, 0); err != nil {
			return nil, err
		} else if end == len(raw) {
			return append(dst, raw...), nil
		}
	}
	return nil, fmt.Errorf("invalid number %s", quoteText(string(n)))
}
