package rewrite

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

var errTruncated = errors.New("unexpected end")

// reader reads the binary format. The first error sticks; reads after it
// return zeros.
type reader struct {
	b   []byte
	pos int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
		r.pos = len(r.b)
	}
}

func (r *reader) left() int { return len(r.b) - r.pos }

func (r *reader) byte() byte {
	if r.pos >= len(r.b) {
		r.fail(errTruncated)
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

// peek is the next byte; 0 if there is none.
func (r *reader) peek() byte {
	if r.pos >= len(r.b) {
		return 0
	}
	return r.b[r.pos]
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail(errTruncated)
		return nil
	}
	p := r.b[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return p
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	if r.pos < len(r.b) && r.b[r.pos] < 0x80 {
		c := r.b[r.pos]
		r.pos++
		return uint32(c)
	}
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail(errors.New("integer too large"))
	return 0
}

// sleb reads a signed LEB128 of at most bits bits.
func (r *reader) sleb(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if shift+7 < 64 && c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail(errors.New("integer too large"))
	return 0
}

func (r *reader) name() string {
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.fail(errors.New("name is not UTF-8"))
		return ""
	}
	return string(b)
}

// count reads the length of a vector, which is at most limit, and of which
// every element takes at least one byte.
func (r *reader) count(what string, limit int) int {
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if int64(n) > int64(limit) {
		r.fail(&Error{Kind: Limit, Msg: fmt.Sprintf("%d %s, more than %d", n, what, limit)})
		return 0
	}
	if int64(n) > int64(r.left()) {
		r.fail(errTruncated)
		return 0
	}
	return int(n)
}

func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendSleb(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte {
	b = appendU32(b, uint32(len(s)))
	return append(b, s...)
}

// appendSection appends a section with its id and size.
func appendSection(b []byte, id byte, body []byte) []byte {
	b = append(b, id)
	b = appendU32(b, uint32(len(body)))
	return append(b, body...)
}
