package document

import (
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
	at       int    // object: the member to write next
	first    int    // object: its first member
	last     int    // object: index behind its last member
}

// canonicalizer writes the canonical form of a text and its tape. It does not recurse.
type canonicalizer struct {
	raw     []byte // read
	in      []node // read
	out     []byte
	tape    []node
	members []member // of the open objects
	open    []container
	// duplicates says that a member was left out for another of its name.
	duplicates bool
}

// canonicalize returns the Document of raw, whose tape is tape, and whether an object
// had several members of one name.
func canonicalize(raw []byte, tape []node) (*Document, bool) {
	// Nothing gets longer by becoming canonical.
	c := canonicalizer{
		raw: raw, in: tape,
		out:  make([]byte, 0, len(raw)),
		tape: make([]node, 0, len(tape)),
	}
	var members [64]member
	var open [16]container
	c.members, c.open = members[:0], open[:0]
	c.value(0)
	for len(c.open) > 0 {
		c.step(&c.open[len(c.open)-1])
	}
	return &Document{raw: clip(c.out), tape: clip(c.tape), indexed: true}, c.duplicates
}

// clip returns s in memory of its own length when it leaves much of its memory unused.
func clip[S ~[]E, E any](s S) S {
	if cap(s)-len(s) > 64 && cap(s)-len(s) > len(s)/8 {
		return append(make(S, 0, len(s)), s...)
	}
	return s
}

// step writes the next member or element of the innermost container, or closes it.
func (c *canonicalizer) step(top *container) {
	if top.isObject && top.at < top.last {
		if top.at > top.first {
			c.out = append(c.out, ',')
		}
		name := c.members[top.at].node
		top.at++
		c.string(&c.in[name], 0)
		c.out = append(c.out, ':')
		c.value(name + 1)
		return
	}
	if !top.isObject && top.next < top.end {
		if c.out[len(c.out)-1] != '[' || c.tape[top.out].count() > 0 {
			c.out = append(c.out, ',')
		}
		element := top.next
		top.next = c.in[element].next
		c.value(element)
		return
	}
	closed := *top
	c.open = c.open[:len(c.open)-1]
	if closed.isObject {
		c.out = append(c.out, '}')
		c.members = c.members[:closed.first]
	} else {
		c.out = append(c.out, ']')
	}
	c.complete(closed.out)
}

// value writes a scalar, or opens a container.
func (c *canonicalizer) value(i uint32) {
	n := &c.in[i]
	at := uint32(len(c.tape))
	switch n.kind() {
	case String:
		c.string(n, at+1)
		c.complete(at)
	case Object:
		c.push(container{out: at, isObject: true, first: len(c.members)}, '{', Object)
		c.order(i)
	case Array:
		c.push(container{out: at, next: i + 1, end: n.next}, '[', Array)
	default:
		start := uint32(len(c.out))
		c.out = append(c.out, c.raw[n.start:n.end]...)
		c.tape = append(c.tape, node{start: start, meta: n.meta})
		c.complete(at)
	}
}

func (c *canonicalizer) push(o container, bracket byte, kind Kind) {
	c.tape = append(c.tape, node{start: uint32(len(c.out)), meta: uint32(kind)})
	c.out = append(c.out, bracket)
	c.open = append(c.open, o)
}

// string writes a name or a string.
func (c *canonicalizer) string(n *node, next uint32) {
	start := uint32(len(c.out))
	meta := uint32(String)
	if n.escaped() {
		c.out = appendCanonicalString(c.out, n.body(c.raw))
		if slices.Contains(c.out[start:], '\\') {
			meta |= escapedFlag
		}
	} else {
		c.out = append(c.out, c.raw[n.start:n.end]...)
	}
	c.tape = append(c.tape, node{start: start, end: uint32(len(c.out)), next: next, meta: meta})
}

// complete notes that the value at index i of the tape written ends here.
func (c *canonicalizer) complete(i uint32) {
	n := &c.tape[i]
	n.end, n.next = uint32(len(c.out)), uint32(len(c.tape))
	if len(c.open) == 0 {
		return
	}
	parent := &c.open[len(c.open)-1]
	c.tape[parent.out].meta += countOne
	if parent.isObject {
		c.tape[i-1].next = n.next
	}
}

// order lists the members of the object at index i, which was just opened, in
// canonical order and without those that another of their name follows.
func (c *canonicalizer) order(i uint32) {
	top := &c.open[len(c.open)-1]
	sorted := true
	for at := i + 1; at < c.in[i].next; at = c.in[at].next {
		m := member{name: c.in[at].text(c.raw), node: at}
		sorted = sorted && (len(c.members) == top.first || c.members[len(c.members)-1].name < m.name)
		c.members = append(c.members, m)
	}
	if !sorted {
		mine := c.members[top.first:]
		sortMembers(mine)
		kept := mine[:0]
		for k, m := range mine {
			if k+1 < len(mine) && mine[k+1].name == m.name {
				c.duplicates = true
				continue
			}
			kept = append(kept, m)
		}
		c.members = c.members[:top.first+len(kept)]
	}
	top.at, top.last = top.first, len(c.members)
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
