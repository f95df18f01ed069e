package apply

import (
	"bytes"
	"slices"
	"strconv"

	"weir.dev/weir/abi/document"
)

// change is a leaf that two objects have with different values.
type change struct {
	// fields are the names on its path in a FieldsV1, path those in the document.
	fields, path []string
	value        document.Value
	// system fields are owned by nobody.
	system bool
}

// changes collects the leaves in which two objects differ that are otherwise built alike.
type changes struct {
	list []change
	// fields and path lead to what is being compared.
	fields, path []string
	// partial is set where the second object may lack what the first has.
	partial bool
	// unsure is set where they differ in more, or may be equal though they are spelled differently.
	unsure bool
}

// compare collects the changes from a root to another. Both must fit t; skip are top-level fields to leave out.
func (c *changes) compare(from, to document.Value, t *mergeType, skip []string) {
	c.members(from, to, t, func(name string) bool { return slices.Contains(skip, name) })
}

func (c *changes) members(from, to document.Value, t *mergeType, skip func(string) bool) {
	if !c.partial {
		for name := range from.Members() {
			if !skip(name) && !to.Get(name).Exists() {
				c.absent(name)
			}
		}
	}
	for name, b := range to.Members() {
		if skip(name) {
			continue
		}
		a := from.Get(name)
		if !a.Exists() {
			c.absent(name)
			continue
		}
		sub, _ := t.member(name)
		c.enter("f:"+name, name)
		switch {
		case len(c.path) == 1 && (name == "apiVersion" || name == "kind"):
			c.unsure = c.unsure || !a.Equal(b)
		case len(c.path) == 1 && name == "metadata" && a.Kind() == document.Object && b.Kind() == document.Object && sub != nil && !sub.mapAtomic:
			c.members(a, b, sub, func(name string) bool { return name == "managedFields" })
		default:
			c.values(a, b, sub)
		}
		c.leave()
	}
}

// absent handles a member that only one of both has: a system field may come and go.
func (c *changes) absent(name string) {
	if len(c.path) != 1 || c.path[0] != "metadata" || !isSystem(name) || c.partial {
		c.unsure = true
		return
	}
	c.enter("f:"+name, name)
	c.add(document.Value{})
	c.leave()
}

func (c *changes) enter(field, name string) {
	c.fields, c.path = append(c.fields, field), append(c.path, name)
}

func (c *changes) leave() {
	c.fields, c.path = c.fields[:len(c.fields)-1], c.path[:len(c.path)-1]
}

// add notes a change of what is being compared.
func (c *changes) add(value document.Value) {
	c.list = append(c.list, change{
		fields: slices.Clone(c.fields), path: slices.Clone(c.path), value: value,
		system: len(c.path) == 2 && c.path[0] == "metadata" && isSystem(c.path[1]),
	})
}

func (c *changes) values(a, b document.Value, t *mergeType) {
	if c.unsure || t == nil || bytes.Equal(a.Raw(), b.Raw()) {
		c.unsure = c.unsure || t == nil
		return
	}
	if a.Kind() != b.Kind() {
		c.unsure = true
		return
	}
	if t.isLeaf(b) {
		c.unsure = c.unsure || mayBeEqual(a, b)
		c.add(b)
		return
	}
	if a.Len() == 0 || b.Len() == 0 {
		c.unsure = true
		return
	}
	if b.Kind() == document.Object {
		c.members(a, b, t, func(string) bool { return false })
		return
	}
	if len(t.keys) == 0 || a.Len() != b.Len() {
		c.unsure = true
		return
	}
	if _, ok := t.items(b); !ok {
		c.unsure = true
		return
	}
	before, after := t.itemsInOrder(a), t.itemsInOrder(b)
	for i := range after {
		if before[i].name != after[i].name {
			c.unsure = true
			return
		}
		c.enter(after[i].name, strconv.Itoa(i))
		c.values(before[i].value, after[i].value, t.item)
		c.leave()
	}
}

// mayBeEqual reports whether two values that are spelled differently may be the same: 1 and 1.0 are.
func mayBeEqual(a, b document.Value) bool {
	switch a.Kind() {
	case document.String, document.Bool:
		return false
	case document.Number:
		x, ok := a.Float()
		y, ok2 := b.Float()
		return !ok || !ok2 || x == y
	}
	return hasFloat(a) || hasFloat(b)
}

// hasFloat reports whether a number in v can be spelled in another way.
func hasFloat(v document.Value) bool {
	switch v.Kind() {
	case document.Number:
		_, ok := v.Int()
		return !ok || string(v.Raw()) == "-0"
	case document.Object:
		for _, member := range v.Members() {
			if hasFloat(member) {
				return true
			}
		}
	case document.Array:
		for _, element := range v.Elements() {
			if hasFloat(element) {
				return true
			}
		}
	}
	return false
}
