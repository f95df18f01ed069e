package apply

import (
	"slices"

	"weir.dev/weir/abi/document"
)

// fieldset encodes the FieldsV1 of an object, as structured-merge-diff does, without its trees of paths. What it is
// not sure of it leaves to the library.
type fieldset struct {
	out []byte
	// added is set for the fields of an object that has just come to be: it owns maps and lists beside what is in
	// them. An applied configuration owns them only where no schema says that they are there anyway.
	added bool
	// skip are the top-level fields that are not owned through this endpoint.
	skip []string
	// unsure is set where the library must judge.
	unsure bool
}

// isSystem reports whether a field of metadata is never owned.
func isSystem(name string) bool {
	switch name {
	case "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion":
		return true
	}
	return false
}

// encode returns the FieldsV1 of root, nil where that is left to the library. Root must fit t.
func (f *fieldset) encode(root document.Value, t *mergeType) []byte {
	f.out = append(make([]byte, 0, 1024), '{')
	for name, member := range root.Members() {
		switch {
		case name == "apiVersion" || name == "kind" || slices.Contains(f.skip, name):
			continue
		case name == "metadata":
			f.metadata(member, t)
			continue
		}
		sub, field := t.member(name)
		f.member(name, member, sub, field)
	}
	f.out = append(f.out, '}')
	if f.unsure || len(f.out) == len("{}") {
		return nil
	}
	return f.out
}

func (f *fieldset) metadata(meta document.Value, t *mergeType) {
	sub, _ := t.member("metadata")
	if meta.Kind() != document.Object || sub == nil || sub.mapAtomic {
		f.unsure = true
		return
	}
	before := len(f.out)
	f.name("f:", "metadata")
	f.out = append(f.out, '{')
	open := len(f.out)
	for name, member := range meta.Members() {
		if !isSystem(name) {
			child, field := sub.member(name)
			f.member(name, member, child, field)
		}
	}
	if len(f.out) == open {
		f.out = f.out[:before]
		return
	}
	f.out = append(f.out, '}')
}

// name appends the name of a member and what is between it and the member before.
func (f *fieldset) name(prefix, name string) {
	if last := f.out[len(f.out)-1]; last != '{' {
		f.out = append(f.out, ',')
	}
	f.out = append(append(append(append(f.out, '"'), prefix...), name...), `":`...)
}

// member appends a member of a map.
func (f *fieldset) member(name string, v document.Value, t *mergeType, field bool) {
	if !isPlainText(name, `"\`) {
		f.unsure = true
		return
	}
	f.name("f:", name)
	f.value(v, t, f.added || !field || v.Kind() == document.Object && v.Len() == 0)
}

// value appends what is owned of a value; owned says that the value itself is.
func (f *fieldset) value(v document.Value, t *mergeType, owned bool) {
	if t == nil || f.unsure {
		f.unsure = true
		return
	}
	if t.isLeaf(v) || v.Len() == 0 {
		// An applied empty list owns nothing, which makes no member.
		f.unsure = f.unsure || !owned && !t.isLeaf(v)
		f.out = append(f.out, `{}`...)
		return
	}
	f.out = append(f.out, '{')
	if owned {
		f.out = append(f.out, `".":{}`...)
	}
	if v.Kind() == document.Object {
		for name, member := range v.Members() {
			sub, field := t.member(name)
			f.member(name, member, sub, field)
		}
	} else {
		items, ok := t.items(v)
		f.unsure = f.unsure || !ok
		for _, item := range items {
			f.name("", quoteInside(item.name))
			f.value(item.value, t.item, true)
		}
	}
	f.out = append(f.out, '}')
}

// item is an element of a list that is not atomic.
type item struct {
	// name is that in a FieldsV1.
	name  string
	value document.Value
}

// items returns the elements of a list sorted by their names. ok is false where two have the same. The list must fit t.
func (t *mergeType) items(v document.Value) (items []item, ok bool) {
	items = t.itemsInOrder(v)
	slices.SortFunc(items, func(a, b item) int {
		switch {
		case a.name < b.name:
			return -1
		case a.name > b.name:
			return 1
		}
		return 0
	})
	for i := 1; i < len(items); i++ {
		if items[i].name == items[i-1].name {
			return nil, false
		}
	}
	return items, true
}

func (t *mergeType) itemsInOrder(v document.Value) []item {
	items := make([]item, 0, v.Len())
	for _, element := range v.Elements() {
		var memory [128]byte
		items = append(items, item{string(t.appendItemName(memory[:0], element)), element})
	}
	return items
}

// appendItemName appends the name of an element in a FieldsV1.
func (t *mergeType) appendItemName(dst []byte, element document.Value) []byte {
	if len(t.keys) == 0 {
		return append(append(dst, "v:"...), element.Raw()...)
	}
	dst = append(dst, "k:{"...)
	for i, key := range t.keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), key...), `":`...)
		dst = append(dst, element.Get(key).Raw()...)
	}
	return append(dst, '}')
}

// quoteInside escapes the quotation marks of a name, which has nothing else to escape.
func quoteInside(name string) string {
	n := 0
	for i := range len(name) {
		if name[i] == '"' {
			n++
		}
	}
	if n == 0 {
		return name
	}
	out := make([]byte, 0, len(name)+n)
	for i := range len(name) {
		if name[i] == '"' {
			out = append(out, '\\')
		}
		out = append(out, name[i])
	}
	return string(out)
}
