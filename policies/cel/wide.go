package cel

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/types/ref"

	"weir.dev/weir/abi/document"
)

// A document finds a member of an object, and an element of an array of containers, by passing over those before it. A
// comprehension that looks into a list of thousands for each of its elements would take time that no cost counts. So a
// run indexes what is large and looked into often.
const (
	// minWide is the number of members or elements from which on a value is indexed, minLooks how often it was looked into.
	minWide  = 64
	minLooks = 4
)

// wideValues are the indexes of a run's documents. One goroutine uses it.
type wideValues struct {
	known map[document.Value]*wideValue
	// passed is how many members and elements were passed over or indexed.
	passed uint64
}

// wideValue is one large object or array.
type wideValue struct {
	looks  int
	names  []string // of members, sorted
	values []document.Value
}

// refVal gives the CEL value of a value in a document. It may be nil, for a value that is not looked into often.
func (w *wideValues) refVal(v document.Value) ref.Val {
	switch v.Kind() {
	case document.Array:
		return &listVal{v, w}
	case document.Object:
		return &mapVal{v, w}
	default:
		return scalar(v)
	}
}

// of returns the index of a value that is worth one, or nil.
func (w *wideValues) of(v document.Value) *wideValue {
	if w == nil || v.Len() < minWide {
		return nil
	}
	x := w.known[v]
	if x == nil {
		if w.known == nil {
			w.known = map[document.Value]*wideValue{}
		}
		x = &wideValue{}
		w.known[v] = x
	}
	if x.looks++; x.looks < minLooks {
		w.passed += uint64(v.Len())
		return nil
	}
	if x.values == nil {
		w.passed += uint64(v.Len())
		x.values = make([]document.Value, 0, v.Len())
		if v.Kind() == document.Object {
			x.names = make([]string, 0, v.Len())
		}
		for name, member := range v.Members() {
			x.names, x.values = append(x.names, name), append(x.values, member)
		}
		for _, element := range v.Elements() {
			x.values = append(x.values, element)
		}
	}
	return x
}

// member is v.Get(name).
func (w *wideValues) member(v document.Value, name string) document.Value {
	x := w.of(v)
	if x == nil {
		return v.Get(name)
	}
	if i, ok := slices.BinarySearchFunc(x.names, name, strings.Compare); ok {
		return x.values[i]
	}
	return document.Value{}
}

// element is v.Index(i).
func (w *wideValues) element(v document.Value, i int) document.Value {
	x := w.of(v)
	switch {
	case x == nil:
		return v.Index(i)
	case i < 0 || i >= len(x.values):
		return document.Value{}
	}
	return x.values[i]
}
