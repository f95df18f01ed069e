package document

import (
	"bytes"
	"iter"
	"strconv"
)

// Kind is the kind of a Value.
type Kind uint8

// The kinds of JSON values, and Absent for what is not there.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Absent:
		return "absent"
	case Null:
		return "null"
	case Bool:
		return "bool"
	case Number:
		return "number"
	case String:
		return "string"
	case Array:
		return "array"
	case Object:
		return "object"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Value is a value in a Document. It is two words and passed by value. The zero
// Value is Absent, and so is what is read of an Absent Value: a chain of reads needs
// one check, at its end.
//
// Strings and bytes of a Value share the document's memory, and keep it, unless said
// otherwise.
type Value struct {
	d *Document // Invariant: nil, or indexed without an error
	i uint32    // index of the value in d.tape
}

func (v Value) node() *node { return &v.d.tape[v.i] }

// Kind returns the kind of the value.
func (v Value) Kind() Kind {
	if v.d == nil {
		return Absent
	}
	return v.node().kind()
}

// Exists reports whether the value is not Absent. A null exists.
func (v Value) Exists() bool { return v.d != nil }

// Raw returns the canonical JSON of the value, nil when it is Absent. The caller must
// not write to it.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	n := v.node()
	return v.d.raw[n.start:n.end:n.end]
}

// String returns the decoded text of a String, and "" of any other kind.
func (v Value) String() string {
	if v.Kind() != String {
		return ""
	}
	return v.node().text(v.d.raw)
}

// Bool returns the value of a Bool; ok is false for any other kind.
func (v Value) Bool() (val, ok bool) {
	if v.Kind() != Bool {
		return false, false
	}
	return v.d.raw[v.node().start] == 't', true
}

// Int returns the exact value of a Number that is spelled as an integer, with neither
// a point nor an exponent, and fits 64 bits.
func (v Value) Int() (int64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	i, err := strconv.ParseInt(alias(v.Raw()), 10, 64)
	if err != nil {
		return 0, false
	}
	return i, true
}

// Float returns the 64-bit float nearest to a Number.
func (v Value) Float() (float64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(alias(v.Raw()), 64)
	return f, err == nil
}

// Len returns the number of members of an Object or elements of an Array, else 0.
func (v Value) Len() int {
	if v.d == nil {
		return 0
	}
	return v.node().count()
}

// Get follows path, names of members, from the value. It is Absent where a name is
// not there or would have to be looked up in anything but an Object. Names are
// case-sensitive. Get does not allocate; it passes over the members before the one
// it finds.
func (v Value) Get(path ...string) Value {
	for _, name := range path {
		v = v.member(name)
	}
	return v
}

func (v Value) member(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	tape, raw := v.d.tape, v.d.raw
	end := tape[v.i].next
	for i := v.i + 1; i < end; i = tape[i].next {
		if tape[i].is(raw, name) {
			return Value{v.d, i + 1}
		}
	}
	return Value{}
}

// Index returns the element i of an Array, counted from 0; it is Absent outside it.
// It passes over the elements before i, where any of them is a container: a loop over
// a long array is better written with Elements.
func (v Value) Index(i int) Value {
	if v.Kind() != Array || i < 0 || i >= v.Len() {
		return Value{}
	}
	tape := v.d.tape
	first, end := v.i+1, v.node().next
	if int(end-first) == v.Len() { // no element has nodes of its own
		return Value{v.d, first + uint32(i)}
	}
	for ; i > 0; i-- {
		first = tape[first].next
	}
	return Value{v.d, first}
}

// Members returns the members of an Object, sorted by name bytewise; of any other
// kind there are none.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for c := membersOf(v); c.more(); c.advance() {
			if !yield(c.name(), c.value()) {
				return
			}
		}
	}
}

// Elements returns the elements of an Array with their index; of any other kind there
// are none.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Kind() != Array {
			return
		}
		i, end := v.i+1, v.node().next
		for n := 0; i < end; n++ {
			if !yield(n, Value{v.d, i}) {
				return
			}
			i = v.d.tape[i].next
		}
	}
}

// Equal reports whether both are the same JSON value, or both Absent. Numbers are
// equal when they are spelled alike.
func (v Value) Equal(other Value) bool {
	return v.Exists() == other.Exists() && bytes.Equal(v.Raw(), other.Raw())
}

// Widest returns a bound on the size of each thing in the document that v is of: of
// strings and names in bytes, of arrays in elements, of objects in members. It is found
// once for the document.
func (v Value) Widest() int {
	if v.d == nil {
		return 0
	}
	if n := v.d.widest.Load(); n > 0 {
		return int(n - 1)
	}
	var most uint32
	for i := range v.d.tape {
		n := &v.d.tape[i]
		switch n.kind() {
		case String:
			most = max(most, n.end-n.start-2)
		case Array, Object:
			most = max(most, n.meta>>countShift)
		default:
		}
	}
	v.d.widest.Store(most + 1)
	return int(most)
}

// Document returns the value as a Document of its own, which shares memory with this
// one. It is nil when the value is Absent.
func (v Value) Document() *Document {
	switch {
	case v.d == nil:
		return nil
	case v.i == 0:
		return v.d
	}
	return FromCanonical(v.Raw())
}

// members is a position among the members of an object.
type members struct {
	d      *Document
	i, end uint32
}

// membersOf returns the position of v's first member. Only an Object has one.
func membersOf(v Value) members {
	if v.Kind() != Object {
		return members{}
	}
	return members{v.d, v.i + 1, v.node().next}
}

func (m *members) more() bool   { return m.i < m.end }
func (m *members) advance()     { m.i = m.d.tape[m.i].next }
func (m *members) name() string { return m.d.tape[m.i].text(m.d.raw) }
func (m *members) value() Value { return Value{m.d, m.i + 1} }

// rawName returns the member's name as it is spelled, quotes included.
func (m *members) rawName() []byte {
	n := &m.d.tape[m.i]
	return m.d.raw[n.start:n.end]
}
