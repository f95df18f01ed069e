package schema

import (
	"math"
	"slices"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"weir.dev/weir/abi/document"
)

// quadratic is the length up to which the elements of a list are compared with each other.
const quadratic = 16

// isSound reports whether v satisfies all that sh says of values and of lists that are sets or maps. It may report
// false for a v that does, never true for one that does not.
func (sh *shape) isSound(v document.Value) bool {
	if sh.opaque {
		return false
	}
	switch v.Kind() {
	case document.Null:
		return sh.s.Nullable && sh.enum == nil
	case document.Bool:
		return sh.s.Type == "boolean" || sh.isAny()
	case document.Number:
		return sh.isSoundNumber(v)
	case document.String:
		return sh.isSoundString(v)
	case document.Array:
		return sh.isSoundArray(v)
	case document.Object:
		return sh.isSoundObject(v)
	}
	return false
}

// isAny reports whether values of every kind are allowed.
func (sh *shape) isAny() bool { return sh.s.Type == "" && !sh.s.XIntOrString }

func (sh *shape) isSoundNumber(v document.Value) bool {
	if sh.isAny() {
		return true
	}
	n, whole := v.Int()
	switch {
	case sh.s.XIntOrString:
		return whole
	case sh.s.Type == "integer":
		if !whole || sh.format == "int32" && (n < math.MinInt32 || n > math.MaxInt32) {
			return false
		}
	case sh.s.Type != "number":
		return false
	}
	if sh.least == nil && sh.most == nil {
		return true
	}
	f, ok := v.Float()
	return ok &&
		(sh.least == nil || f > *sh.least || f == *sh.least && !sh.leastExcluded) &&
		(sh.most == nil || f < *sh.most || f == *sh.most && !sh.mostExcluded)
}

func (sh *shape) isSoundString(v document.Value) bool {
	if sh.isAny() {
		return true
	}
	if sh.s.Type != "string" && !sh.s.XIntOrString {
		return false
	}
	text := v.String()
	if n := int64(len(text)); n > sh.longest || n/utf8.UTFMax < sh.shortest {
		if n = int64(utf8.RuneCountInString(text)); n > sh.longest || n < sh.shortest {
			return false
		}
	}
	return (sh.enum == nil || slices.Contains(sh.enum, text)) &&
		(sh.format == "" || strfmt.Default.Validates(sh.format, text)) &&
		(sh.pattern == nil || sh.pattern.MatchString(text))
}

func (sh *shape) isSoundArray(v document.Value) bool {
	if sh.s.Type != "array" && !sh.isAny() || int64(v.Len()) < sh.fewest || int64(v.Len()) > sh.uttermost {
		return false
	}
	if sh.items != nil {
		for _, element := range v.Elements() {
			if !sh.items.isSound(element) {
				return false
			}
		}
	}
	if sh.s.XListType == nil || v.Len() < 2 {
		return sh.s.XListType == nil || *sh.s.XListType != "map" || v.Index(0).Kind() != document.Null
	}
	switch *sh.s.XListType {
	case "set":
		return isSet(v)
	case "map":
		return sh.isMap(v)
	}
	return true
}

// isSet reports whether the elements differ. Only integers are sure to when they are spelled differently.
func isSet(v document.Value) bool {
	for _, element := range v.Elements() {
		switch element.Kind() {
		case document.String, document.Bool:
		default:
			if _, ok := element.Int(); !ok {
				return false
			}
		}
	}
	return isUnique(v, nil)
}

// isMap reports whether the keys of the elements differ.
func (sh *shape) isMap(v document.Value) bool {
	for _, element := range v.Elements() {
		if element.Kind() != document.Object {
			return false
		}
		for _, name := range sh.s.XListMapKeys {
			switch key := element.Get(name); key.Kind() {
			case document.Absent, document.String, document.Bool:
			default:
				if _, ok := key.Int(); !ok {
					return false
				}
			}
		}
	}
	return isUnique(v, sh.s.XListMapKeys)
}

// appendKey appends what tells an element from others: its members of those names, without names itself.
func appendKey(dst []byte, element document.Value, names []string) []byte {
	if names == nil {
		return append(dst, element.Raw()...)
	}
	for _, name := range names {
		dst = append(append(dst, element.Get(name).Raw()...), ',')
	}
	return dst
}

// isUnique reports whether no two elements have the same key.
func isUnique(v document.Value, names []string) bool {
	if n := v.Len(); n <= quadratic {
		var memory [512]byte
		var ends [quadratic + 1]int
		keys, i := memory[:0], 0
		for _, element := range v.Elements() {
			keys = appendKey(keys, element, names)
			i++
			ends[i] = len(keys)
			for k := range i - 1 {
				if string(keys[ends[k]:ends[k+1]]) == string(keys[ends[i-1]:]) {
					return false
				}
			}
		}
		return true
	}
	seen := make(map[string]bool, v.Len())
	var scratch []byte
	for _, element := range v.Elements() {
		scratch = appendKey(scratch[:0], element, names)
		if seen[string(scratch)] {
			return false
		}
		seen[string(scratch)] = true
	}
	return true
}

func (sh *shape) isSoundObject(v document.Value) bool {
	if sh.s.Type != "object" && !sh.isAny() || int64(v.Len()) < sh.fewest || int64(v.Len()) > sh.uttermost {
		return false
	}
	for name, member := range v.Members() {
		sub, listed := sh.properties[name]
		if !listed {
			if sub = sh.additional; sub == nil {
				continue
			}
		}
		if !sub.isSound(member) {
			return false
		}
	}
	for _, name := range sh.required {
		if !v.Get(name).Exists() {
			return false
		}
	}
	return true
}
