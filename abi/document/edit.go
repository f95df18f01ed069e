package document

import (
	"bytes"
	"fmt"
	"slices"
)

// Edit collects changes of a Document and makes a new one of them. Changes apply in
// the order they are given, each to the result of those before. The first that fails
// is what Document returns; later ones do nothing. An Edit is not for concurrent use.
type Edit struct {
	d    *Document
	root *overlay
	err  error
}

// overlay is a value with changes below it.
type overlay struct {
	base     Value          // what the changes apply to; Absent: an object without members
	names    []namedOverlay // changed members, sorted by name
	elements []*overlay     // when isList: every element, in place of base's
	isList   bool
}

// namedOverlay is a changed member; one without an overlay is deleted.
type namedOverlay struct {
	name string
	*overlay
}

// Edit begins an Edit of the document.
func (d *Document) Edit() *Edit {
	e := &Edit{d: d}
	if e.err = d.Err(); e.err == nil {
		e.root = &overlay{base: d.Root()}
	}
	return e
}

// Set makes value the value at path, creating the objects that are missing, or null,
// on the way. Without a path it replaces the whole document.
//
// value is a Value, a *Document, or anything FromValue takes. An Absent Value, or nil
// *Document, deletes what is at path: Set copies from one document to another what is
// there and what is not.
//
// An element of path that meets an array must be the decimal index of an element in
// it, or "-", which appends one. A path that leads through a string, number or bool
// is an error.
func (e *Edit) Set(value any, path ...string) *Edit {
	if e.err != nil {
		return e
	}
	v, err := valueOf(value)
	if err == nil && !v.Exists() {
		return e.Delete(path...)
	}
	if err == nil {
		err = checkDepth(len(path), v.Raw())
	}
	if err == nil {
		err = e.set(v, path)
	}
	if err != nil {
		e.err = fmt.Errorf("set %s: %w", pathOf(path), err)
	}
	return e
}

// valueOf returns what Set was given as a Value.
func valueOf(value any) (Value, error) {
	var d *Document
	switch v := value.(type) {
	case Value:
		return v, nil
	case *Document:
		if d = v; d == nil {
			return Value{}, nil
		}
	default:
		var err error
		if d, err = FromValue(value); err != nil {
			return Value{}, err
		}
	}
	return d.Root(), d.Err()
}

func (e *Edit) set(value Value, path []string) error {
	at := e.root
	for i, element := range path {
		var err error
		if at, err = at.child(element); err != nil {
			if i == 0 {
				return fmt.Errorf("document %w", err)
			}
			return fmt.Errorf("%s %w", pathOf(path[:i]), err)
		}
	}
	*at = overlay{base: value}
	return nil
}

// Delete removes the member or element at path. It changes nothing where there is
// none. A document cannot be deleted as a whole: without a path, Delete fails.
func (e *Edit) Delete(path ...string) *Edit {
	if e.err != nil {
		return e
	}
	if len(path) == 0 {
		e.err = fmt.Errorf("delete: path is empty")
		return e
	}
	if !e.root.has(path) {
		return e
	}
	at := e.root
	last := len(path) - 1
	for _, element := range path[:last] {
		// has found every child on the way, so that none is created or refused.
		at, _ = at.child(element)
	}
	at.remove(path[last])
	return e
}

// Document returns the document with the changes, or the one that was edited when
// they leave it as it was.
func (e *Edit) Document() (*Document, error) {
	if e.err != nil {
		return nil, e.err
	}
	raw := e.root.append(make([]byte, 0, e.d.Len()+64))
	if bytes.Equal(raw, e.d.text()) {
		return e.d, nil
	}
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(raw), maxBytes)
	}
	return FromCanonical(raw), nil
}

// pathOf spells a path of an edit for a message.
func pathOf(path []string) string {
	p := Path{}
	for _, name := range path {
		p.steps = append(p.steps, step{name: name, index: stepName})
	}
	return quoteText(p.String())
}

func (o *overlay) isObject() bool {
	kind := o.base.Kind()
	return !o.isList && (kind == Object || kind == Null || kind == Absent)
}

// find returns the index in names of name, or where it belongs.
func (o *overlay) find(name string) (int, bool) {
	return slices.BinarySearchFunc(o.names, name, func(n namedOverlay, name string) int {
		switch {
		case n.name < name:
			return -1
		case n.name > name:
			return 1
		}
		return 0
	})
}

// listed makes an overlay of every element of an array.
func (o *overlay) listed() {
	if o.isList {
		return
	}
	o.isList = true
	o.elements = make([]*overlay, 0, o.base.Len()+1)
	for _, e := range o.base.Elements() {
		o.elements = append(o.elements, &overlay{base: e})
	}
}

// child returns the overlay of a member or element. One that is not there is created,
// and in it nothing yet.
func (o *overlay) child(element string) (*overlay, error) {
	if o.isObject() {
		i, found := o.find(element)
		switch {
		case !found:
			o.names = slices.Insert(o.names, i, namedOverlay{element, &overlay{base: o.base.member(element)}})
		case o.names[i].overlay == nil:
			o.names[i].overlay = &overlay{}
		}
		return o.names[i].overlay, nil
	}
	if !o.isList && o.base.Kind() != Array {
		return nil, fmt.Errorf("is of kind %s, neither object nor array", o.base.Kind())
	}
	o.listed()
	if element == "-" {
		o.elements = append(o.elements, &overlay{})
		return o.elements[len(o.elements)-1], nil
	}
	i, ok := parseIndex(element)
	if !ok {
		return nil, fmt.Errorf("is an array, and %s no index of it", quoteText(element))
	}
	if i >= len(o.elements) {
		return nil, fmt.Errorf("is an array of %d elements, index %d is not in it", len(o.elements), i)
	}
	return o.elements[i], nil
}

// has reports whether there is a value at path.
func (o *overlay) has(path []string) bool {
	for k, element := range path {
		if o.isObject() {
			i, found := o.find(element)
			if !found {
				return baseHas(o.base, path[k:])
			}
			if o = o.names[i].overlay; o == nil {
				return false
			}
			continue
		}
		if !o.isList {
			return baseHas(o.base, path[k:])
		}
		i, ok := parseIndex(element)
		if !ok || i >= len(o.elements) {
			return false
		}
		o = o.elements[i]
	}
	return true
}

func baseHas(v Value, path []string) bool {
	for _, element := range path {
		if v.Kind() == Array {
			i, ok := parseIndex(element)
			if !ok {
				return false
			}
			v = v.Index(i)
		} else {
			v = v.member(element)
		}
	}
	return v.Exists()
}

// remove takes away a member or element that is there.
func (o *overlay) remove(element string) {
	if !o.isObject() {
		o.listed()
		i, _ := parseIndex(element)
		o.elements = slices.Delete(o.elements, i, i+1)
		return
	}
	i, found := o.find(element)
	if !found {
		o.names = slices.Insert(o.names, i, namedOverlay{name: element})
		return
	}
	o.names[i].overlay = nil
}

// append appends the canonical JSON of the value with its changes; without a base and
// changes it is an empty object. Its recursion is as deep as the longest path set.
func (o *overlay) append(dst []byte) []byte {
	if o.isList {
		dst = append(dst, '[')
		for i, e := range o.elements {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.append(dst)
		}
		return append(dst, ']')
	}
	if len(o.names) == 0 && o.base.Exists() {
		return append(dst, o.base.Raw()...)
	}
	dst = append(dst, '{')
	open := len(dst)
	names := o.names
	for base := membersOf(o.base); base.more() || len(names) > 0; {
		order := compareNext(&base, names)
		if order < 0 {
			dst = appendComma(dst, open)
			dst = append(dst, base.rawName()...)
			dst = append(dst, ':')
			dst = append(dst, base.value().Raw()...)
			base.advance()
			continue
		}
		if order == 0 {
			base.advance()
		}
		if changed := names[0]; changed.overlay != nil {
			dst = appendComma(dst, open)
			dst = appendQuoted(dst, changed.name)
			dst = append(dst, ':')
			dst = changed.append(dst)
		}
		names = names[1:]
	}
	return append(dst, '}')
}

// compareNext returns -1 when base's member comes next, 1 when the first of names
// does, and 0 when they are the same member. There is one of them at least.
func compareNext(base *members, names []namedOverlay) int {
	switch {
	case len(names) == 0:
		return -1
	case !base.more():
		return 1
	}
	name := base.name()
	switch {
	case name < names[0].name:
		return -1
	case name > names[0].name:
		return 1
	}
	return 0
}

// appendComma appends the comma before a member, unless it is the first behind the
// bracket that ends at open.
func appendComma(dst []byte, open int) []byte {
	if len(dst) == open {
		return dst
	}
	return append(dst, ',')
}
