package storage

import "unicode/utf8"

// maxDepth is how deep objects and arrays may be nested: as deep as jsontext reads them.
const maxDepth = 10000

// wellFormed reports whether text is one JSON value in UTF-8, with white space around it at most. Names may repeat.
// It walks over the text once and allocates nothing for usual depths.
func wellFormed(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	s := scanner{text}
	var room [64]byte
	open := room[:0] // what closes the objects and arrays around i
	for i := s.space(0); i < len(text); {
		// A value starts at i.
		switch c := text[i]; c {
		case '{', '[':
			closer := c + 2 // of both
			if i = s.space(i + 1); i < len(text) && text[i] == closer {
				i++
				break
			}
			if len(open) == maxDepth {
				return false
			}
			open = append(open, closer)
			if c == '{' {
				i = s.memberName(i)
			}
			if i < 0 {
				return false
			}
			continue
		case '"':
			i = s.wholeString(i)
		default:
			i = s.literal(i)
		}
		if i < 0 {
			return false
		}
		i = s.space(i)
		for len(open) > 0 && i < len(text) && text[i] == open[len(open)-1] {
			open = open[:len(open)-1]
			i = s.space(i + 1)
		}
		if len(open) == 0 {
			return i == len(text)
		}
		if i == len(text) || text[i] != ',' {
			return false
		}
		if i = s.space(i + 1); open[len(open)-1] == '}' {
			i = s.memberName(i)
		}
		if i < 0 {
			return false
		}
	}
	return false
}

// memberName returns where the value of the member starts whose name is at i, or -1.
func (s scanner) memberName(i int) int {
	if i >= len(s.text) || s.text[i] != '"' {
		return -1
	}
	if i = s.wholeString(i); i < 0 {
		return -1
	}
	if i = s.space(i); i >= len(s.text) || s.text[i] != ':' {
		return -1
	}
	return s.space(i + 1)
}

// wholeString is str for a string whose every character is looked at.
func (s scanner) wholeString(i int) int {
	for i++; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i = s.escape(i); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// escape returns the last index of the escape whose backslash is at i, or -1. Half a surrogate pair is none.
func (s scanner) escape(i int) int {
	if i++; i >= len(s.text) {
		return -1
	}
	switch s.text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
	default:
		return -1
	}
	const high, low, beyond = 0xd800, 0xdc00, 0xe000
	unit := s.hex(i + 1)
	switch {
	case unit < 0 || unit >= low && unit < beyond:
		return -1
	case unit < high || unit >= beyond:
		return i + 4
	}
	i += 5
	if i+1 >= len(s.text) || s.text[i] != '\\' || s.text[i+1] != 'u' {
		return -1
	}
	if unit = s.hex(i + 2); unit < low || unit >= beyond {
		return -1
	}
	return i + 5
}

// hex returns the number of the four hexadecimal digits at i, or -1.
func (s scanner) hex(i int) int {
	if i+4 > len(s.text) {
		return -1
	}
	n := 0
	for _, c := range s.text[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		n = n<<4 | int(c)
	}
	return n
}

// literal returns the index after the number, true, false or null at i, or -1.
func (s scanner) literal(i int) int {
	for _, word := range [...]string{"true", "false", "null"} {
		if end := i + len(word); s.text[i] == word[0] && end <= len(s.text) && string(s.text[i:end]) == word {
			return end
		}
	}
	return s.number(i)
}

// number returns the index after the number at i, or -1.
func (s scanner) number(i int) int {
	if s.text[i] == '-' {
		i++
	}
	start := i
	if i = s.digits(i); i < 0 || s.text[start] == '0' && i > start+1 {
		return -1
	}
	if i < len(s.text) && s.text[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(s.text) && (s.text[i] == 'e' || s.text[i] == 'E') {
		if i++; i < len(s.text) && (s.text[i] == '+' || s.text[i] == '-') {
			i++
		}
		i = s.digits(i)
	}
	return i
}

// digits returns the index after the digits at i, or -1 where there are none.
func (s scanner) digits(i int) int {
	start := i
	for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}
