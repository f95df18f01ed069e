package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of a patch, as upstream's API server has them, and on what applying
// it may cost.
const (
	maxPatchOps  = 10_000
	maxPatchWork = 1 << 26 // array elements moved
)

// ErrTestFailed is that a test operation of a patch did not hold.
var ErrTestFailed = errors.New("test failed")

// ApplyPatch applies a JSON patch (RFC 6902) and gives the new document, which
// may have up to limit bytes. As in kube-apiserver, a member that an object does
// not have can be replaced, and is null for a test. Of two numbers only the spelling is compared by
// test; the error of one that does not hold is [ErrTestFailed]. What a patch
// may cost is bounded: the number of its operations, the bytes it copies and
// tests, and the array elements it moves.
func (d *Document) ApplyPatch(patch *Document, limit int) (*Document, error) {
	list := patch.Root()
	if list.Kind() != Array {
		return nil, errors.New("not an array of operations")
	}
	if list.Len() > maxPatchOps {
		return nil, fmt.Errorf("%d operations, more than %d", list.Len(), maxPatchOps)
	}
	p := &patcher{root: leaf(d.Root()), limit: limit}
	for i, op := range list.Elements() {
		if err := p.apply(op); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	out := p.root.append(nil)
	if len(out) > limit {
		return nil, fmt.Errorf("makes an object of %d bytes, more than %d", len(out), limit)
	}
	return Parse(out)
}

// patchNode is a value of the object while it is patched: a value of a
// document until something in it changes.
type patchNode struct {
	value   Value
	kind    Kind // Object and Array when expanded, else Absent
	members map[string]*patchNode
	items   []*patchNode
}

func leaf(v Value) *patchNode { return &patchNode{value: v} }

// expand makes the children of an object or array nodes.
func (n *patchNode) expand() {
	if n.kind != Absent {
		return
	}
	switch n.value.Kind() {
	case Object:
		n.kind = Object
		n.members = make(map[string]*patchNode, n.value.Len())
		for name, v := range n.value.Members() {
			n.members[name] = leaf(v)
		}
	case Array:
		n.kind = Array
		n.items = make([]*patchNode, 0, n.value.Len()+1)
		for _, v := range n.value.Elements() {
			n.items = append(n.items, leaf(v))
		}
	}
}

// append appends the node's JSON.
func (n *patchNode) append(b []byte) []byte {
	switch n.kind {
	case Object:
		b = append(b, '{')
		for i, name := range slices.Sorted(maps.Keys(n.members)) {
			if i > 0 {
				b = append(b, ',')
			}
			quoted, _ := json.Marshal(name) // a string always can be
			b = append(append(b, quoted...), ':')
			b = n.members[name].append(b)
		}
		return append(b, '}')
	case Array:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	}
	return append(b, n.value.Raw()...)
}

type patcher struct {
	root   *patchNode
	limit  int // of the result, bytes
	work   int // array elements moved
	copied int // bytes
}

func (p *patcher) apply(op Value) error {
	name := op.Get("op").String()
	path, err := pointer(op.Get("path"))
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	var from []string
	if name == "move" || name == "copy" {
		if from, err = pointer(op.Get("from")); err != nil {
			return fmt.Errorf("from: %w", err)
		}
	}
	value := op.Get("value")
	switch name {
	case "add", "replace", "test":
		if !value.Exists() {
			return fmt.Errorf("%s without a value", name)
		}
	}
	switch name {
	case "add":
		return p.add(path, leaf(value))
	case "replace":
		if len(path) == 0 {
			p.root = leaf(value)
			return nil
		}
		return p.replace(path, leaf(value))
	case "remove":
		_, err := p.remove(path)
		return err
	case "test":
		n, err := p.find(path)
		if err != nil {
			if value.Kind() == Null && p.isAbsent(path) {
				return nil
			}
			return err
		}
		d, err := p.render(n)
		if err != nil {
			return err
		}
		if !d.Root().Equal(value) {
			return fmt.Errorf("/%s: %w", strings.Join(path, "/"), ErrTestFailed)
		}
		return nil
	case "copy":
		n, err := p.find(from)
		if err != nil {
			return err
		}
		d, err := p.render(n)
		if err != nil {
			return err
		}
		return p.add(path, leaf(d.Root()))
	case "move":
		if len(path) > len(from) && slices.Equal(path[:len(from)], from) {
			return errors.New("move into itself")
		}
		n, err := p.remove(from)
		if err != nil {
			return err
		}
		return p.add(path, n)
	}
	return fmt.Errorf("op %q does not exist", name)
}

// render makes a document of a node, within what may be copied.
func (p *patcher) render(n *patchNode) (*Document, error) {
	raw := n.append(nil)
	p.copied += len(raw)
	if p.copied > 4*p.limit {
		return nil, errors.New("copies and tests too much")
	}
	return Parse(raw)
}

// find returns the node at a path.
func (p *patcher) find(path []string) (*patchNode, error) {
	n := p.root
	for i, token := range path {
		n.expand()
		var next *patchNode
		switch n.kind {
		case Object:
			next = n.members[token]
		case Array:
			if j, ok := arrayIndex(token, len(n.items)); ok {
				next = n.items[j]
			}
		}
		if next == nil {
			return nil, fmt.Errorf("/%s does not exist", strings.Join(path[:i+1], "/"))
		}
		n = next
	}
	return n, nil
}

// parent returns the node that holds what the path names, expanded.
func (p *patcher) parent(path []string) (*patchNode, string, error) {
	n, err := p.find(path[:len(path)-1])
	if err != nil {
		return nil, "", err
	}
	n.expand()
	if n.kind == Absent {
		return nil, "", fmt.Errorf("/%s is neither an object nor an array", strings.Join(path[:len(path)-1], "/"))
	}
	return n, path[len(path)-1], nil
}

func (p *patcher) add(path []string, value *patchNode) error {
	if len(path) == 0 {
		p.root = value
		return nil
	}
	n, token, err := p.parent(path)
	if err != nil {
		return err
	}
	if n.kind == Object {
		n.members[token] = value
		return nil
	}
	i, ok := len(n.items), token == "-"
	if !ok {
		i, ok = arrayIndex(token, len(n.items)+1)
	}
	if !ok {
		return fmt.Errorf("/%s is not an index of its array", strings.Join(path, "/"))
	}
	if err := p.charge(len(n.items) - i); err != nil {
		return err
	}
	n.items = slices.Insert(n.items, i, value)
	return nil
}

// replace sets a member of an object also where there is none, which RFC 6902 has as an error: kube-apiserver's library
// does so, and clients rely on it.
func (p *patcher) replace(path []string, value *patchNode) error {
	if p.isAbsent(path) {
		return p.add(path, value)
	}
	n, err := p.find(path)
	if err != nil {
		return err
	}
	*n = *value
	return nil
}

// isAbsent reports whether the path names a member that an object, which is there, does not have.
func (p *patcher) isAbsent(path []string) bool {
	if len(path) == 0 {
		return false
	}
	n, token, err := p.parent(path)
	if err != nil || n.kind != Object {
		return false
	}
	_, ok := n.members[token]
	return !ok
}

func (p *patcher) remove(path []string) (*patchNode, error) {
	if len(path) == 0 {
		return nil, errors.New("the whole object cannot be removed")
	}
	found, err := p.find(path)
	if err != nil {
		return nil, err
	}
	n, token, err := p.parent(path)
	if err != nil {
		return nil, err
	}
	if n.kind == Object {
		delete(n.members, token)
		return found, nil
	}
	i, _ := arrayIndex(token, len(n.items)) // it was found
	if err := p.charge(len(n.items) - i); err != nil {
		return nil, err
	}
	n.items = slices.Delete(n.items, i, i+1)
	return found, nil
}

func (p *patcher) charge(elements int) error {
	p.work += elements
	if p.work > maxPatchWork {
		return errors.New("moves too many array elements")
	}
	return nil
}

// arrayIndex parses an index below n: decimal, without leading zeros.
func arrayIndex(token string, n int) (int, bool) {
	if token == "" || len(token) > 1 && token[0] == '0' || strings.Trim(token, "0123456789") != "" {
		return 0, false
	}
	i, err := strconv.Atoi(token)
	return i, err == nil && i < n
}

// pointer parses a JSON pointer (RFC 6901).
func pointer(v Value) ([]string, error) {
	if v.Kind() != String {
		return nil, errors.New("not a string")
	}
	s := v.String()
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("%q does not begin with /", s)
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, nil
}
