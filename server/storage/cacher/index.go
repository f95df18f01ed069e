package cacher

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// indexKey names what an index orders rows by: a field, or with label a label.
type indexKey struct {
	label bool
	name  string
}

// entry is one row in an index.
type entry struct {
	// value shares the bytes of the row's attribute.
	value string
	el    *element
}

func lessEntry(a, b entry) bool {
	if a.value != b.value {
		return a.value < b.value
	}
	return a.el.suffix() < b.el.suffix()
}

// index orders the rows of one state by the value of a field or a label, and those of one value by key. It
// belongs to a tree, which keeps it; a copy costs as little as one of a tree.
//
// An object without the field has it with the value "", as selectors see it. One without the label is not in the index.
type index struct {
	key indexKey
	// label is what metrics call it.
	label string
	rows  *btree.BTreeG[entry]
	// lists and read count the lists that the index has served, and what they have looked at.
	lists, read counter
	// used is when a list last used the index or a copy of it, in nanoseconds.
	used *atomic.Int64
}

// newIndex makes the index of rows.
func newIndex(key indexKey, rows tree) *index {
	x := &index{
		key:   key,
		label: "l", // names of labels are not bounded, those of fields are
		rows:  btree.NewBTreeGOptions(lessEntry, btree.Options{NoLocks: true, Degree: 32}),
		used:  new(atomic.Int64),
	}
	if !key.label {
		x.label = "f:" + key.name
	}
	// The rows come in the order of keys, so that those of each value are in order.
	buckets := map[string][]*element{}
	rows.Scan(func(at item) bool {
		value, ok := x.valueOf(at.el)
		if !ok {
			return true
		}
		buckets[value] = append(buckets[value], at.el)
		return true
	})
	for _, value := range slices.Sorted(maps.Keys(buckets)) {
		for _, el := range buckets[value] {
			x.rows.Load(entry{value, el})
		}
	}
	return x
}

// copy returns an index of the same state; then either may change.
func (x *index) copy() *index {
	c := *x
	c.rows = x.rows.Copy()
	return &c
}

// valueOf returns the value that a row is found by, false when it is not in the index. A nil row is not.
func (x *index) valueOf(el *element) (string, bool) {
	switch {
	case el == nil:
		return "", false
	case x.key.label:
		return el.label(x.key.name)
	}
	value, _ := el.field(x.key.name)
	return value, true
}

// replace puts the row el in the place of previous; either may be nil.
func (x *index) replace(previous, el *element) {
	had, was := x.valueOf(previous)
	has, is := x.valueOf(el)
	if was && (!is || had != has) {
		x.rows.Delete(entry{had, previous})
	}
	if is {
		x.rows.Set(entry{has, el})
	}
}

// demanded returns the one value that f demands, false when it demands none.
func (x *index) demanded(f *filter) (string, bool) {
	switch {
	case !x.key.label && f.field != nil:
		return f.field.RequiresExactMatch(x.key.name)
	case x.key.label && f.label != nil:
		return f.label.RequiresExactMatch(x.key.name)
	}
	return "", false
}

// ascend calls visit with the rows of a value whose keys start with prefix and are not less than from.
func (x *index) ascend(value, prefix, from string, visit func(*element) bool) {
	first := &element{}
	first.row.Key = max(prefix, from)
	x.rows.Ascend(entry{value, first}, func(at entry) bool {
		return at.value == value && strings.HasPrefix(at.el.suffix(), prefix) && visit(at.el)
	})
}

// few counts the rows of a value whose keys start with prefix, up to limit.
func (x *index) few(value, prefix string, limit int) (n int) {
	x.ascend(value, prefix, "", func(*element) bool {
		n++
		return n < limit
	})
	return n
}

// touch notes that the index is of use.
func (x *index) touch(now time.Time) {
	// Many lists come at a time: what they share is written to seldom.
	if at := now.UnixNano(); at-x.used.Load() > int64(time.Second) {
		x.used.Store(at)
	}
}

// index returns the index of a state that finds what f wants with the least to look at, and the value to look for;
// nil when there is none.
func (t tree) index(f *filter) (best *index, value string) {
	const enough = 1 << 12
	least := -1
	for _, x := range t.indexes {
		demanded, ok := x.demanded(f)
		if !ok {
			continue
		}
		if best == nil {
			best, value = x, demanded
			continue
		}
		if least < 0 {
			least = best.few(value, f.start, enough)
		}
		if n := x.few(demanded, f.start, least); n < least {
			best, value, least = x, demanded, n
		}
	}
	return best, value
}

// indexable returns the first field or label of which f demands one value and no index is there.
func (f *filter) indexable(have []*index) (indexKey, bool) {
	missing := func(key indexKey) bool {
		for _, x := range have {
			if x.key == key {
				return false
			}
		}
		return true
	}
	for _, r := range requirements(f.field) {
		key := indexKey{name: r.Field}
		// Keys are in the order of namespaces and names; those who know one ask for less than all keys.
		if r.Operator != selection.NotEquals && r.Field != nameField && r.Field != namespaceField && missing(key) {
			return key, true
		}
	}
	for _, name := range demandedLabels(f.label) {
		if key := (indexKey{label: true, name: name}); missing(key) {
			return key, true
		}
	}
	return indexKey{}, false
}

func requirements(s fields.Selector) fields.Requirements {
	if s == nil {
		return nil
	}
	return s.Requirements()
}

// demandedLabels returns the labels of which a selector demands one value.
func demandedLabels(s labels.Selector) (names []string) {
	if s == nil {
		return nil
	}
	all, _ := s.Requirements()
	for i := range all {
		if _, ok := s.RequiresExactMatch(all[i].Key()); ok {
			names = append(names, all[i].Key())
		}
	}
	return names
}
