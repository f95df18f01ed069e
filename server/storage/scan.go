package storage

import (
	"bytes"
	"encoding/json"
	"errors"
)

// errMalformed is the cause of an error about bytes that are not a JSON object.
var errMalformed = errors.New("malformed JSON object")

// span is a member of an object: value is text[valueStart:valueEnd], its name starts
// with the quote at nameStart.
type span struct {
	nameStart, valueStart, valueEnd int
}

// shortString is up to how many bytes a string is looked at one by one.
const shortString = 24

// scanner walks over a JSON text without decoding it. It checks no more than it
// needs to find its way and to stay within the text.
type scanner struct{ text []byte }

// space returns the first index from i that is not white space.
func (s scanner) space(i int) int {
	if i < len(s.text) && s.text[i] > ' ' {
		return i // as in all that this server has written
	}
	return s.longSpace(i)
}

func (s scanner) longSpace(i int) int {
	for i < len(s.text) {
		switch s.text[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// str returns the index after the string whose opening quote is at i, or -1.
func (s scanner) str(i int) int {
	i++
	// Most strings are short: shorter than what a call of IndexByte costs.
	for end := min(i+shortString, len(s.text)); i < end; i++ {
		switch s.text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	for start := i; ; i++ {
		if i >= len(s.text) {
			return -1
		}
		n := bytes.IndexByte(s.text[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := i
		for slashes > start && s.text[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			return i + 1
		}
	}
}

// value returns the index after the value that starts at i, or -1.
func (s scanner) value(i int) int {
	if i >= len(s.text) {
		return -1
	}
	switch s.text[i] {
	case '"':
		return s.str(i)
	case '{', '[':
		if i = s.closing(i + 1); i < 0 {
			return -1
		}
		return i + 1
	}
	start := i
	for i < len(s.text) {
		switch s.text[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			if i == start {
				return -1
			}
			return i
		}
		i++
	}
	return -1
}

// closing returns the index of what closes the object or list that is open at i, or -1.
func (s scanner) closing(i int) int {
	for depth := 1; i < len(s.text); {
		switch s.text[i] {
		case '"':
			if i = s.str(i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i
			}
		}
		i++
	}
	return -1
}

// object walks over the members of the object whose brace is at open. It returns the
// member called name, and where a member of that name belongs by the order of names:
// the start of the first greater name, or the closing brace.
func (s scanner) object(open int, name string) (found located, err error) {
	if open >= len(s.text) || s.text[open] != '{' {
		return located{}, errMalformed
	}
	i := s.space(open + 1)
	for first := true; ; first = false {
		if i >= len(s.text) {
			return located{}, errMalformed
		}
		if s.text[i] == '}' && first {
			break
		}
		if s.text[i] != '"' {
			return located{}, errMalformed
		}
		m := span{nameStart: i}
		if i = s.str(i); i < 0 {
			return located{}, errMalformed
		}
		key := s.text[m.nameStart+1 : i-1]
		if i = s.space(i); i >= len(s.text) || s.text[i] != ':' {
			return located{}, errMalformed
		}
		m.valueStart = s.space(i + 1)
		if m.valueEnd = s.value(m.valueStart); m.valueEnd < 0 {
			return located{}, errMalformed
		}
		found.members++
		if string(key) == name {
			found.member = m
			found.ok = true
			return found, nil
		}
		if found.insert == 0 && after(key, name) {
			found.insert = m.nameStart
		}
		if i = s.space(m.valueEnd); i >= len(s.text) {
			return located{}, errMalformed
		}
		if s.text[i] == '}' {
			break
		}
		if s.text[i] != ',' {
			return located{}, errMalformed
		}
		i = s.space(i + 1)
	}
	found.end = i
	return found, nil
}

// member returns where the value of a member begins, of the object whose brace is at open, or -1.
func (s scanner) member(open int, name string) int {
	if open < 0 || open >= len(s.text) || s.text[open] != '{' {
		return -1
	}
	for i := s.space(open + 1); i < len(s.text) && s.text[i] == '"'; i = s.space(i + 1) {
		start := i + 1
		if i = s.str(i); i < 0 {
			return -1
		}
		key := s.text[start : i-1]
		if i = s.space(i); i >= len(s.text) || s.text[i] != ':' {
			return -1
		}
		i = s.space(i + 1)
		if string(key) == name {
			return i
		}
		if i = s.value(i); i < 0 {
			return -1
		}
		if i = s.space(i); i >= len(s.text) || s.text[i] != ',' {
			return -1
		}
	}
	return -1
}

// after reports whether a comes after b in the order of names.
func after(a []byte, b string) bool {
	if len(a) > 0 && len(b) > 0 && a[0] != b[0] {
		return a[0] > b[0] // decides nearly always, without a call
	}
	return string(a) > b
}

// located is what scanner.object found.
type located struct {
	member span
	ok     bool
	// members counts those that were walked over.
	members int
	// insert is the start of the first greater name, 0 when there is none; set only where ok is false.
	insert int
	// end is the index of the closing brace; set only where ok is false.
	end int
}

// MetadataString returns the string metadata.<name> of a JSON object, "" where there is none.
func MetadataString(value []byte, name string) string {
	s := scanner{value}
	top, err := s.object(s.space(0), "metadata")
	if err != nil || !top.ok {
		return ""
	}
	meta, err := s.object(top.member.valueStart, name)
	if err != nil || !meta.ok {
		return ""
	}
	raw := value[meta.member.valueStart:meta.member.valueEnd]
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
