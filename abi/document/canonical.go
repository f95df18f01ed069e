package document

import (
	"bytes"
	"cmp"
	"slices"
)

// member is a member of an object that is being put in order.
type member struct {
	name string // decoded
	node uint32 // index of the name in the tape read
}

// container is an object or array that is being written.
type container struct {
	out      uint32 // its node in the tape written
	isObject bool
	next     uint32 // array: the element to write next, in the tape read
	end      uint32 // array: index behind its last element, in the tape read
	first    int    // object: its first member
	at       int    // object: the member to write next
	last     int    // object: index behind its last member
}

// canonicalize returns the Document of raw, whose tape is in, and whether an object
// had several members of one name. It does not recurse. It is one function so that
// what it works with can stay on the stack.
func canonicalize(raw []byte, in []node) (_ *Document, duplicates bool) {
	var (
		membersBuf [64]member
		openBuf    [16]container
		members    = membersBuf[:0] // of the open objects
		open       = openBuf[:0]

		out  = make([]byte, 0, canonicalSize(in))
		tape = make([]node, 0, len(in))

		i uint32 // the value to write, in the tape read
	)
value:
	for {
		n := &in[i]
		at := uint32(len(tape))
		tape = append(tape, node{start: uint32(len(out)), meta: n.meta & (kindMask | escapedFlag)})
		switch n.kind() {
		case Object:
			out = append(out, '{')
			first := len(members)
			var lost bool
			members, lost = appendMembers(members, raw, in, i)
			duplicates = duplicates || lost
			open = append(open, container{out: at, isObject: true, first: first, at: first, last: len(members)})
		case Array:
			out = append(out, '[')
			open = append(open, container{out: at, next: i + 1, end: n.next})
		default:
			if n.escaped() {
				out = appendCanonicalString(out, n.body(raw))
				tape[at].meta = stringMeta(out[tape[at].start:])
			} else {
				out = append(out, raw[n.start:n.end]...)
			}
			complete(tape, at, len(out), open)
		}

		// The next value is in the innermost container that is not at its end.
		for len(open) > 0 {
			top := &open[len(open)-1]
			more := top.next < top.end || top.at < top.last
			if more && tape[top.out].count() > 0 {
				out = append(out, ',')
			}
			switch {
			case more && top.isObject:
				i = members[top.at].node
				top.at++
				name := &in[i]
				start := uint32(len(out))
				meta := uint32(String)
				if name.escaped() {
					out = appendCanonicalString(out, name.body(raw))
					meta = stringMeta(out[start:])
				} else {
					out = append(out, raw[name.start:name.end]...)
				}
				tape = append(tape, node{start: start, end: uint32(len(out)), meta: meta})
				out = append(out, ':')
				i++
				continue value
			case more:
				i = top.next
				top.next = in[i].next
				continue value
			case top.isObject:
				out = append(out, '}')
				members = members[:top.first]
			default:
				out = append(out, ']')
			}
			closed := top.out
			open = open[:len(open)-1]
			complete(tape, closed, len(out), open)
		}
		return &Document{raw: clip(out), tape: clip(tape), indexed: true}, duplicates
	}
}

// canonicalSize returns the length of the canonical form of the text whose tape is in,
// or more: no string gets longer by becoming canonical.
func canonicalSize(in []node) int {
	size := 0
	for i := range in {
		switch n := &in[i]; n.kind() {
		case Object:
			size += max(2, 1+2*n.count()) // brackets, colons and commas
		case Array:
			size += max(2, 1+n.count())
		default:
			size += int(n.end - n.start)
		}
	}
	return size
}

// complete notes that the value at index i of the tape written ends with the text
// written, end bytes; open are the containers around it.
func complete(tape []node, i uint32, end int, open []container) {
	tape[i].end, tape[i].next = uint32(end), uint32(len(tape))
	if len(open) == 0 {
		return
	}
	parent := &open[len(open)-1]
	tape[parent.out].meta += countOne
	if parent.isObject {
		tape[i-1].next = uint32(len(tape))
	}
}

// stringMeta returns the meta of a string that is spelled as quoted.
func stringMeta(quoted []byte) uint32 {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return uint32(String) | escapedFlag
	}
	return uint32(String)
}

// clip returns s in memory of its own length when it leaves much of its memory unused.
func clip[S ~[]E, E any](s S) S {
	if unused := cap(s) - len(s); unused > 64 && unused > len(s)/8 {
		return append(make(S, 0, len(s)), s...)
	}
	return s
}

// appendMembers appends the members of the object at index i in canonical order. It
// leaves those out that another of their name follows, and reports whether it did.
func appendMembers(members []member, raw []byte, in []node, i uint32) (_ []member, lost bool) {
	first := len(members)
	sorted := true
	for at := i + 1; at < in[i].next; at = in[at].next {
		m := member{name: in[at].text(raw), node: at}
		sorted = sorted && (len(members) == first || members[len(members)-1].name < m.name)
		members = append(members, m)
	}
	if sorted {
		return members, false
	}
	mine := members[first:]
	sortMembers(mine)
	kept := 0
	for k, m := range mine {
		if k+1 < len(mine) && mine[k+1].name == m.name {
			lost = true
			continue
		}
		mine[kept] = m
		kept++
	}
	return members[:first+kept], lost
}

// sortMembers sorts by name, members of one name in the order of the text.
func sortMembers(members []member) {
	if len(members) > 12 {
		slices.SortFunc(members, func(a, b member) int {
			return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.node, b.node))
		})
		return
	}
	for i := 1; i < len(members); i++ {
		for k := i; k > 0 && members[k].name < members[k-1].name; k-- {
			members[k], members[k-1] = members[k-1], members[k]
		}
	}
}
