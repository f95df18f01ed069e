package document

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// scan checks raw, one JSON text, and appends its tape to tape. canonical says that
// the root starts raw and is canonical up to its end; white space may follow.
//
// scan does not recurse: while a container is open, its node's next is the index of
// the container around it and its node's end the index of its latest name.
func scan(raw []byte, tape []node, maxDepth int) (_ []node, canonical bool, _ error) {
	var (
		i        int
		parent   uint32 // the innermost open container
		depth    int    // open containers
		inObject bool   // parent is an object
	)
	canonical = true
	if i < len(raw) && raw[i] <= ' ' {
		i, canonical = skipSpace(raw, i), false
	}
next:
	for {
		if len(tape)+2 > cap(tape) {
			tape = slices.Grow(tape, 2+cap(tape)) // append would grow a long tape by a quarter only
		}
		if inObject {
			if i >= len(raw) || raw[i] != '"' {
				return nil, false, unexpected(raw, i, "looking for beginning of object key string")
			}
			end, state, err := scanString(raw, i)
			if err != nil {
				return nil, false, err
			}
			name := node{start: uint32(i), end: uint32(end), meta: uint32(String) | uint32(state&escapedFlag)}
			if canonical {
				last := tape[parent].end
				canonical = state&respell == 0 && (last == 0 || ascending(raw, &tape[last], &name))
				tape[parent].end = uint32(len(tape))
			}
			tape = append(tape, name)
			i = end
			if i < len(raw) && raw[i] <= ' ' {
				i, canonical = skipSpace(raw, i), false
			}
			if i >= len(raw) || raw[i] != ':' {
				return nil, false, unexpected(raw, i, "after object key")
			}
			i++
			if i < len(raw) && raw[i] <= ' ' {
				i, canonical = skipSpace(raw, i), false
			}
		}
		if i >= len(raw) {
			return nil, false, unexpected(raw, i, "")
		}
		n := node{start: uint32(i), next: uint32(len(tape) + 1)}
		switch c := raw[i]; c {
		case '"':
			end, state, err := scanString(raw, i)
			if err != nil {
				return nil, false, err
			}
			canonical = canonical && state&respell == 0
			n.meta = uint32(String) | uint32(state&escapedFlag)
			i = end
		case '{', '[':
			if depth >= maxDepth {
				return nil, false, syntaxError(i+1, "exceeded max depth")
			}
			i++
			if i < len(raw) && raw[i] <= ' ' {
				i, canonical = skipSpace(raw, i), false
			}
			kind := Array
			if c == '{' {
				kind = Object
			}
			n.meta = uint32(kind)
			if i >= len(raw) || raw[i] != c+2 { // the closing bracket of c
				n.next = parent
				parent = uint32(len(tape))
				inObject = kind == Object
				depth++
				tape = append(tape, n)
				continue next
			}
			i++
		case 't':
			if len(raw)-i < 4 || string(raw[i:i+4]) != "true" {
				return nil, false, badLiteral(raw, i, "true")
			}
			n.meta = uint32(Bool)
			i += 4
		case 'f':
			if len(raw)-i < 5 || string(raw[i:i+5]) != "false" {
				return nil, false, badLiteral(raw, i, "false")
			}
			n.meta = uint32(Bool)
			i += 5
		case 'n':
			if len(raw)-i < 4 || string(raw[i:i+4]) != "null" {
				return nil, false, badLiteral(raw, i, "null")
			}
			n.meta = uint32(Null)
			i += 4
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			end, err := scanNumber(raw, i)
			if err != nil {
				return nil, false, err
			}
			n.meta = uint32(Number)
			i = end
		default:
			return nil, false, unexpected(raw, i, "looking for beginning of value")
		}
		n.end = uint32(i)
		tape = append(tape, n)
		if inObject {
			tape[len(tape)-2].next = uint32(len(tape))
		}

		// A value is complete; close the containers that end with it.
		for depth > 0 {
			tape[parent].meta += countOne
			if i < len(raw) && raw[i] <= ' ' {
				i, canonical = skipSpace(raw, i), false
			}
			switch {
			case i < len(raw) && raw[i] == ',':
				i++
				if i < len(raw) && raw[i] <= ' ' {
					i, canonical = skipSpace(raw, i), false
				}
				continue next
			case inObject && (i >= len(raw) || raw[i] != '}'):
				return nil, false, unexpected(raw, i, "after object key:value pair")
			case !inObject && (i >= len(raw) || raw[i] != ']'):
				return nil, false, unexpected(raw, i, "after array element")
			}
			i++
			closed := parent
			depth--
			parent = tape[closed].next
			tape[closed].end = uint32(i)
			tape[closed].next = uint32(len(tape))
			if inObject = depth > 0 && tape[parent].kind() == Object; inObject {
				tape[closed-1].next = uint32(len(tape))
			}
		}
		if i = skipSpace(raw, i); i < len(raw) {
			return nil, false, unexpected(raw, i, "after top-level value")
		}
		return tape, canonical, nil
	}
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// ascending reports whether the name a sorts before the name b.
func ascending(raw []byte, a, b *node) bool {
	if a.escaped() || b.escaped() {
		return a.text(raw) < b.text(raw)
	}
	return bytes.Compare(a.body(raw), b.body(raw)) < 0
}

// What scanString found in a string, beside escapedFlag.
const respell = 0x10 // an escape is not the shortest

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// scanString checks the string whose quote is raw[i] and returns the offset behind it.
func scanString(raw []byte, i int) (end int, state uint8, err error) {
	var high uint64 // some bit of highBits is set when a byte is not ASCII
	j := i + 1
	for {
		// Eight bytes at a time up to a quote, a backslash or a control character.
		for j+8 <= len(raw) {
			w := binary.LittleEndian.Uint64(raw[j:])
			stop := ((w - everyByte*' ') | ((w ^ everyByte*'"') - everyByte) |
				((w ^ everyByte*'\\') - everyByte)) &^ w & highBits
			if stop != 0 {
				// Only the lowest bit of stop is certain.
				high |= w & highBits & (stop&-stop - 1)
				j += bits.TrailingZeros64(stop) / 8
				break
			}
			high |= w & highBits
			j += 8
		}
		for j < len(raw) && raw[j] >= ' ' && raw[j] != '"' && raw[j] != '\\' {
			high |= uint64(raw[j]) & 0x80
			j++
		}
		if j >= len(raw) || raw[j] < ' ' {
			return 0, 0, unexpected(raw, j, "in string literal")
		}
		if raw[j] == '"' {
			break
		}
		n, respelled, err := scanEscape(raw, j)
		if err != nil {
			return 0, 0, err
		}
		state |= escapedFlag
		if respelled {
			state |= respell
		}
		j += n
	}
	if high != 0 && !utf8.Valid(raw[i+1:j]) {
		return 0, 0, invalidUTF8(raw, i+1)
	}
	return j + 1, state, nil
}

// scanEscape checks the escape whose backslash is raw[i] and returns its length and
// whether there is a shorter or more usual spelling.
func scanEscape(raw []byte, i int) (n int, respelled bool, err error) {
	if i+1 >= len(raw) {
		return 0, false, unexpected(raw, i+1, "")
	}
	switch raw[i+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2, false, nil
	case '/':
		return 2, true, nil
	case 'u':
	default:
		return 0, false, unexpected(raw, i+1, "in string escape code")
	}
	r := hex4(raw[i+2:])
	switch {
	case r < 0:
		return 0, false, badHex(raw, i+2)
	case r >= surrogateLow && r <= surrogateMax:
		return 0, false, loneSurrogate(raw, i)
	case r >= surrogateMin && r < surrogateLow:
		if i+7 >= len(raw) || raw[i+6] != '\\' || raw[i+7] != 'u' {
			return 0, false, loneSurrogate(raw, i)
		}
		low := hex4(raw[i+8:])
		if low < 0 {
			return 0, false, badHex(raw, i+8)
		}
		if low < surrogateLow || low > surrogateMax {
			return 0, false, loneSurrogate(raw, i)
		}
		return 12, true, nil
	}
	respelled = r >= ' ' || shortEscape(byte(r)) != 0 || raw[i+5] != hexDigits[r&0xf]
	return 6, respelled, nil
}

func badHex(raw []byte, i int) error {
	for i < len(raw) && hex4([]byte{'0', '0', '0', raw[i]}) >= 0 {
		i++
	}
	return unexpected(raw, i, `in \u hexadecimal character escape`)
}

func loneSurrogate(raw []byte, i int) error {
	return syntaxError(i+6, "lone surrogate "+string(raw[i:i+6])+" in string literal")
}

func invalidUTF8(raw []byte, i int) error {
	for {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n <= 1 {
			return syntaxError(i+1, "invalid UTF-8 in string literal")
		}
		i += n
	}
}

func badLiteral(raw []byte, i int, literal string) error {
	k := 1
	for i+k < len(raw) && raw[i+k] == literal[k] { // some byte differs, or is missing
		k++
	}
	return unexpected(raw, i+k, "in literal "+literal+" (expecting "+quoteChar(literal[k])+")")
}

// scanNumber checks the number at raw[i] and returns the offset behind it.
func scanNumber(raw []byte, i int) (int, error) {
	j := i
	if raw[j] == '-' {
		j++
	}
	switch {
	case j >= len(raw) || raw[j] < '0' || raw[j] > '9':
		return 0, unexpected(raw, j, "in numeric literal")
	case raw[j] == '0':
		j++
	default:
		j = skipDigits(raw, j)
	}
	if j < len(raw) && raw[j] == '.' {
		frac := j + 1
		if j = skipDigits(raw, frac); j == frac {
			return 0, unexpected(raw, j, "after decimal point in numeric literal")
		}
	}
	exponent := false
	if j < len(raw) && (raw[j] == 'e' || raw[j] == 'E') {
		exponent = true
		j++
		if j < len(raw) && (raw[j] == '+' || raw[j] == '-') {
			j++
		}
		exp := j
		if j = skipDigits(raw, exp); j == exp {
			return 0, unexpected(raw, j, "in exponent of numeric literal")
		}
	}
	// Whoever reads a number may read it as a float64, so it has to be one.
	if exponent || j-i > 300 {
		if _, err := strconv.ParseFloat(alias(raw[i:j]), 64); err != nil {
			return 0, syntaxError(j, "number "+abbreviate(raw[i:j])+" is out of range of a 64-bit float")
		}
	}
	return j, nil
}

func skipDigits(raw []byte, i int) int {
	for i < len(raw) && raw[i] >= '0' && raw[i] <= '9' {
		i++
	}
	return i
}

func abbreviate(text []byte) string {
	if len(text) > 40 {
		return string(text[:40]) + "…"
	}
	return string(text)
}
