package document

import "errors"

// Mask says which members of an object are wanted. The zero Mask wants none.
type Mask struct {
	whole   bool // the value as it is
	members map[string]*Mask
}

// errMask is the error of a path that a Mask cannot have.
var errMask = errors.New("a field of a mask is the path of a member, without indexes and wildcards")

// NewMask returns the Mask of some fields. Each is a path of members; a wider one
// wins over a narrower one. The error is a *PathError, or that a path has an index
// or a wildcard.
func NewMask(fields ...string) (*Mask, error) {
	m := &Mask{}
	for _, f := range fields {
		path, err := ParsePath(f)
		if err != nil {
			return nil, err
		}
		at := m
		for _, s := range path.steps {
			if s.index != stepName {
				return nil, errMask
			}
			at = at.child(s.name)
		}
		at.whole = true
	}
	return m, nil
}

// child returns the mask of a member, which is made if need be.
func (m *Mask) child(name string) *Mask {
	c := m.members[name]
	if c == nil {
		if m.members == nil {
			m.members = map[string]*Mask{}
		}
		c = &Mask{}
		m.members[name] = c
	}
	return c
}

// AppendMasked appends the canonical JSON of what a mask wants of a value: {} when
// it wants nothing that is there. Of a value that is no object, a mask of its
// members wants nothing.
func (v Value) AppendMasked(dst []byte, m *Mask) []byte {
	if m.whole {
		return append(dst, v.Raw()...)
	}
	start := len(dst)
	dst = append(dst, '{')
	for c := membersOf(v); c.more(); c.advance() {
		child := m.members[c.name()]
		if child == nil {
			continue
		}
		before := len(dst)
		if before > start+1 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, c.rawName()...), ':')
		empty := len(dst) + len("{}")
		dst = c.value().AppendMasked(dst, child)
		if !child.whole && len(dst) == empty {
			dst = dst[:before]
		}
	}
	return append(dst, '}')
}
