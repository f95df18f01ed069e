package document

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// alias returns b as a string without a copy. b is always part of a document's
// bytes, which are never written to.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// AppendString appends s as a string of canonical JSON, for who writes a document
// member by member. Each run of what is not UTF-8 in s becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return appendQuoted(dst, s)
}

// appendQuoted appends the canonical JSON string of s, which must be valid UTF-8.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			dst = append(dst, s[plain:i]...)
			dst = appendEscape(dst, c)
			plain = i + 1
		}
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"')
}

// shortEscape returns the letter of c's two-byte escape, or 0.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

// appendEscape appends the canonical escape of c, which needs one.
func appendEscape(dst []byte, c byte) []byte {
	if short := shortEscape(c); short != 0 {
		return append(dst, '\\', short)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// decodeEscape returns the rune that the escape at the start of body stands for and
// the escape's length. body has passed scanString.
func decodeEscape(body []byte) (rune, int) {
	switch c := body[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r := hex4(body[2:])
		if r < surrogateMin || r > surrogateMax {
			return r, 6
		}
		low := hex4(body[8:])
		return (r-surrogateMin)<<10 | (low - surrogateLow) + 0x10000, 12
	default: // a quote, a backslash or a slash
		return rune(c), 2
	}
}

const (
	surrogateMin = 0xd800
	surrogateLow = 0xdc00
	surrogateMax = 0xdfff
)

// hex4 returns the value of b's first four hexadecimal digits, or -1.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendUnescaped appends the decoded text of body.
func appendUnescaped(dst, body []byte) []byte {
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			dst = append(dst, body[i])
			i++
			continue
		}
		r, n := decodeEscape(body[i:])
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst
}

// appendCanonicalString appends body, quoted, with the shortest escapes.
func appendCanonicalString(dst, body []byte) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			dst = append(dst, body[i])
			i++
			continue
		}
		r, n := decodeEscape(body[i:])
		if r < ' ' || r == '"' || r == '\\' {
			dst = appendEscape(dst, byte(r))
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		i += n
	}
	return append(dst, '"')
}

// unescapedEqual reports whether body decodes to s, without decoding it aside.
func unescapedEqual(body []byte, s string) bool {
	var buf [utf8.UTFMax]byte
	for i := 0; i < len(body); {
		part, n := body[i:i+1], 1
		if body[i] == '\\' {
			var r rune
			r, n = decodeEscape(body[i:])
			part = utf8.AppendRune(buf[:0], r)
		}
		if len(s) < len(part) || s[:len(part)] != string(part) {
			return false
		}
		s = s[len(part):]
		i += n
	}
	return s == ""
}
