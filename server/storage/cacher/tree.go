package cacher

import (
	"sort"
	"strings"

	"github.com/tidwall/btree"
)

// item is an entry of a tree: the key after the cache's prefix, and the row.
type item struct {
	key string
	el  *element
}

// tree orders rows by key. A copy costs nothing until one of the two changes. Reads of
// a tree that nobody changes need no lock.
type tree struct {
	*btree.BTreeG[item]
	// indexes are of the same rows: set keeps them so. The slice is replaced, not changed.
	indexes []*index
}

func newTree() tree {
	return tree{BTreeG: btree.NewBTreeGOptions(
		func(a, b item) bool { return a.key < b.key },
		btree.Options{NoLocks: true, Degree: 32},
	)}
}

// copy returns the rows without their indexes.
func (t tree) copy() tree { return tree{BTreeG: t.Copy()} }

// copyIndexed returns the rows with their indexes.
func (t tree) copyIndexed() tree {
	c := t.copy()
	for _, x := range t.indexes {
		c.indexes = append(c.indexes, x.copy())
	}
	return c
}

// find returns the index for a key, nil when there is none.
func (t tree) find(key indexKey) *index {
	for _, x := range t.indexes {
		if x.key == key {
			return x
		}
	}
	return nil
}

func (t tree) get(key string) *element {
	found, _ := t.Get(item{key: key})
	return found.el
}

// set stores el under its key, or removes the key if el is nil.
func (t tree) set(key string, el *element) (previous *element) {
	var old item
	if el == nil {
		old, _ = t.Delete(item{key: key})
	} else {
		old, _ = t.Set(item{key: key, el: el})
	}
	for _, x := range t.indexes {
		x.replace(old.el, el)
	}
	return old.el
}

// rank returns how many keys are less than key.
func (t tree) rank(key string) int {
	return sort.Search(t.Len(), func(i int) bool {
		at, _ := t.GetAt(i)
		return at.key >= key
	})
}

// count returns how many keys start with prefix and are not less than from.
func (t tree) count(prefix, from string) int {
	end := t.Len()
	if prefix != "" {
		end = t.rank(prefixEnd(prefix))
	}
	start := 0
	if first := max(prefix, from); first != "" {
		start = t.rank(first)
	}
	return max(end-start, 0)
}

// ascend calls visit with the rows whose keys start with prefix and are not less than from.
func (t tree) ascend(prefix, from string, visit func(*element) bool) {
	t.Ascend(item{key: max(prefix, from)}, func(at item) bool {
		return strings.HasPrefix(at.key, prefix) && visit(at.el)
	})
}

// prefixEnd returns the least key that is greater than all that start with prefix.
func prefixEnd(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return string(end[:i+1])
		}
	}
	return "\xff\xff\xff\xff\xff\xff\xff\xff"
}

// view is the state at one revision.
type view struct {
	// rows must not be changed.
	rows tree
	rv   uint64
	// next is the seq of the first event after the state.
	next uint64
}
