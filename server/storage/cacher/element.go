package cacher

import (
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/server/storage"
)

// Fields that most objects have with the value that their key already holds.
const (
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"
)

// pair is a label or a field.
type pair struct {
	name, value unique.Handle[string]
}

// element is one row as the cache holds it. It is immutable, and shared by the tree,
// its snapshots and the ring.
type element struct {
	row storage.Row
	// pairs are the labels, then the fields that the key does not tell.
	pairs  []pair
	labels uint32
	// base is where the key goes on after the cache's prefix.
	base uint16
	// keyName and keyNamespace: the field has the value that the key tells.
	keyName, keyNamespace bool
}

// elementSize and pairSize are the sizes of an element and of a pair themselves, in bytes.
const (
	elementSize = 80
	pairSize    = 16
)

// size returns how many bytes an element keeps alive, were it the only one that has the pieces that its text shares. What
// the allocator rounds up, an eighth at most, is not in it, nor are the names and values of labels and fields, which all
// rows share.
func (el *element) size() int64 {
	return int64(elementSize + pairSize*cap(el.pairs) + len(el.row.Key) + el.row.Value.Size())
}

// newElement makes an element of a row whose key is below a prefix of base bytes.
func newElement(row storage.Row, base int, l labels.Set, f fields.Set) *element {
	el := &element{row: row, base: uint16(base)}
	n := len(l) + len(f)
	namespace, name := el.fromKey()
	if value, ok := f[nameField]; ok && value == name {
		el.keyName = true
		n--
	}
	if value, ok := f[namespaceField]; ok && value == namespace {
		el.keyNamespace = true
		n--
	}
	if n == 0 {
		return el
	}
	el.pairs = make([]pair, 0, n)
	for name, value := range l {
		el.pairs = append(el.pairs, pair{unique.Make(name), unique.Make(value)})
	}
	el.labels = uint32(len(el.pairs))
	order(el.pairs)
	for name, value := range f {
		if name == nameField && el.keyName || name == namespaceField && el.keyNamespace {
			continue
		}
		el.pairs = append(el.pairs, pair{unique.Make(name), unique.Make(value)})
	}
	order(el.pairs[el.labels:])
	return el
}

// has reports whether an element has these labels and fields; with an error it must be as one that has none.
func (el *element) has(l labels.Set, f fields.Set, err error) bool {
	if err != nil {
		return len(el.pairs) == 0 && el.keyName && el.keyNamespace
	}
	for name, value := range l {
		if has, ok := el.label(name); !ok || has != value {
			return false
		}
	}
	for name, value := range f {
		if has, ok := el.field(name); !ok || has != value {
			return false
		}
	}
	fieldsThere := len(el.pairs) - int(el.labels)
	for _, fromKey := range []bool{el.keyName, el.keyNamespace} {
		if fromKey {
			fieldsThere++
		}
	}
	return len(l) == int(el.labels) && len(f) == fieldsThere
}

// suffix is the key without the cache's prefix: [namespace/]name.
func (el *element) suffix() string { return el.row.Key[el.base:] }

// fromKey splits the suffix at its last slash.
func (el *element) fromKey() (namespace, name string) {
	suffix := el.suffix()
	if i := strings.LastIndexByte(suffix, '/'); i >= 0 {
		return suffix[:i], suffix[i+1:]
	}
	return "", suffix
}

// label returns the value of a label.
func (el *element) label(name string) (string, bool) {
	return find(el.pairs[:el.labels], name)
}

// field returns the value of a selectable field.
func (el *element) field(name string) (string, bool) {
	switch {
	case name == nameField && el.keyName:
		_, value := el.fromKey()
		return value, true
	case name == namespaceField && el.keyNamespace:
		value, _ := el.fromKey()
		return value, true
	}
	return find(el.pairs[el.labels:], name)
}

// manyPairs is from how many pairs on they are in order: a client may send tens of thousands of labels, and selectors
// with many requirements.
const manyPairs = 32

func order(pairs []pair) {
	if len(pairs) >= manyPairs {
		slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name.Value(), b.name.Value()) })
	}
}

func find(pairs []pair, name string) (string, bool) {
	if len(pairs) >= manyPairs {
		i, found := slices.BinarySearchFunc(pairs, name, func(p pair, name string) int { return strings.Compare(p.name.Value(), name) })
		if !found {
			return "", false
		}
		return pairs[i].value.Value(), true
	}
	for _, p := range pairs {
		if p.name.Value() == name {
			return p.value.Value(), true
		}
	}
	return "", false
}

// labelsOf and fieldsOf are the views of an element that selectors take.
type (
	labelsOf element
	fieldsOf element
)

var (
	_ labels.Labels = (*labelsOf)(nil)
	_ fields.Fields = (*fieldsOf)(nil)
)

func (l *labelsOf) Has(name string) bool {
	_, ok := (*element)(l).label(name)
	return ok
}

func (l *labelsOf) Get(name string) string {
	value, _ := (*element)(l).label(name)
	return value
}

func (l *labelsOf) Lookup(name string) (string, bool) { return (*element)(l).label(name) }

func (f *fieldsOf) Has(name string) bool {
	_, ok := (*element)(f).field(name)
	return ok
}

func (f *fieldsOf) Get(name string) string {
	value, _ := (*element)(f).field(name)
	return value
}
