package codec

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// maxDepth is how deep values may be nested that are decoded or encoded.
const maxDepth = 500

// scanner reads JSON. It reads what is well-formed as RFC 8259 has it.
type scanner struct {
	data []byte
	pos  int
}

// peek skips white space and returns the byte that follows, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take skips c, if it is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.pos >= len(s.data) {
		return false
	}
	s.pos++
	return true
}

// null skips a null, if it is next.
func (s *scanner) null() bool {
	if s.peek() != 'n' || len(s.data)-s.pos < 4 {
		return false
	}
	s.pos += 4
	return true
}

// value skips one value and returns its bytes. They are empty if there is no
// value.
func (s *scanner) value() []byte {
	c := s.peek()
	start := s.pos
	switch c {
	case '"':
		s.skipString()
	case '{', '[':
		s.skipNested()
	default:
		s.skipWord()
	}
	return s.data[start:s.pos]
}

// skipWord skips a number, true, false or null.
func (s *scanner) skipWord() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ',', ']', '}', ':', ' ', '\t', '\r', '\n', '"', '{', '[':
			return
		}
		s.pos++
	}
}

// lead skips the name of a field and the colon, if they are next as the host
// spells them.
func (s *scanner) lead(f *field) bool {
	n := s.pos + len(f.lead)
	if n > len(s.data) || string(s.data[s.pos:n]) != f.lead {
		return false
	}
	s.pos = n
	return true
}

// skipString skips a string, which is next.
func (s *scanner) skipString() { s.pos = skipString(s.data, s.pos) }

// skipString returns where the string that begins at i ends.
func skipString(data []byte, i int) int {
	for i = special(data, i+1); i < len(data); i = special(data, i+2) {
		if data[i] == '"' {
			return i + 1
		}
	}
	return len(data)
}

// special returns where the first quote or backslash is, from i on; behind the
// end if there is none. It looks at eight bytes at a time: to a guest, which
// has no registers, a loop over the bytes costs ten times as much.
func special(data []byte, i int) int {
	const (
		ones      = 0x0101010101010101
		high      = 0x80 * ones
		quote     = '"' * ones
		backslash = '\\' * ones
	)
	for i+8 <= len(data) {
		w := binary.LittleEndian.Uint64(data[i:])
		q, b := w^quote, w^backslash // a byte that is looked for becomes 0
		if found := ((q-ones)&^q | (b-ones)&^b) & high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for i < len(data) && data[i] != '"' && data[i] != '\\' {
		i++
	}
	return i
}

// skipNested skips an object or array, which is next.
func (s *scanner) skipNested() {
	data, i, depth := s.data, s.pos, 0
	for i < len(data) {
		c := data[i]
		if c == '"' {
			i = skipString(data, i)
			continue
		}
		i++
		switch c | 0x20 { // [ and { differ in it, and so do ] and }
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				s.pos = i
				return
			}
		}
	}
	s.pos = len(data)
}

// str reads a string. Without escapes it shares the memory of data.
func (s *scanner) str() (string, bool) {
	if s.peek() != '"' {
		return "", false
	}
	start := s.pos + 1
	end := special(s.data, start)
	switch {
	case end >= len(s.data):
		return "", false
	case s.data[end] != '"':
		return s.escaped(start, end)
	}
	s.pos = end + 1
	if end == start {
		return "", true
	}
	return unsafe.String(&s.data[start], end-start), true
}

// escaped reads a string that starts at start and has an escape at i.
func (s *scanner) escaped(start, i int) (string, bool) {
	b := append(make([]byte, 0, 2*(i-start)+16), s.data[start:i]...)
	for i < len(s.data) {
		c := s.data[i]
		i++
		if c == '"' {
			s.pos = i
			return unsafe.String(unsafe.SliceData(b), len(b)), true
		}
		if c != '\\' {
			b = append(b, c)
			continue
		}
		if i == len(s.data) {
			break
		}
		c = s.data[i]
		i++
		switch c {
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, ok := s.hex(i)
			if !ok {
				return "", false
			}
			i += 4
			if utf16.IsSurrogate(r) {
				low, ok := rune(-1), false
				if i+1 < len(s.data) && s.data[i] == '\\' && s.data[i+1] == 'u' {
					low, ok = s.hex(i + 2)
				}
				r = utf16.DecodeRune(r, low)
				if ok && r != utf8.RuneError {
					i += 6
				}
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, c)
		}
	}
	return "", false
}

// hex reads the four digits of a \u escape.
func (s *scanner) hex(at int) (rune, bool) {
	if at+4 > len(s.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.data[at:at+4]), 16, 16)
	return rune(n), err == nil
}

// isAbsent tells whether raw is no value, or null.
func isAbsent(raw []byte) bool { return len(raw) == 0 || raw[0] == 'n' }

// eachMember calls f with every member of an object until f is false. It is
// false if raw is no object.
func eachMember(raw []byte, f func(name string, value []byte) bool) bool {
	s := scanner{data: raw}
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		name, ok := s.str()
		if !ok || !s.take(':') {
			return false
		}
		value := s.value()
		if len(value) == 0 {
			return false
		}
		if !f(name, value) {
			return true
		}
		if !s.take(',') {
			return s.take('}')
		}
	}
}

// elements returns the elements of an array, nil if raw is none.
func elements(raw []byte) [][]byte {
	s := scanner{data: raw}
	if !s.take('[') || s.peek() == ']' {
		return nil
	}
	var all [][]byte
	for {
		value := s.value()
		if len(value) == 0 {
			return all
		}
		all = append(all, value)
		if !s.take(',') {
			return all
		}
	}
}

// Get returns the member of an object, nil if there is none.
func Get(raw []byte, name string) []byte {
	var found []byte
	eachMember(raw, func(n string, value []byte) bool {
		if n == name {
			found = value
			return false
		}
		return true
	})
	return found
}

// Element returns the element of an array, nil if there is none.
func Element(raw []byte, index int) []byte {
	if all := elements(raw); index >= 0 && index < len(all) {
		return all[index]
	}
	return nil
}

// Elements returns the elements of an array, nil if raw is none.
func Elements(raw []byte) [][]byte { return elements(raw) }

// String reads a JSON string.
func String(raw []byte) (string, bool) {
	s := scanner{data: raw}
	return s.str()
}

// Int reads a JSON integer.
func Int(raw []byte) (int64, bool) { return integer(raw) }
