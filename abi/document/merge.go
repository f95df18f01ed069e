package document

import (
	"bytes"
	"fmt"
)

// ApplyMergePatch returns the document with patch applied as RFC 7386 says: members of
// the patch's objects replace or are merged into the document's, and null deletes.
// Numbers keep their spelling. It returns d itself when the patch changes nothing.
func (d *Document) ApplyMergePatch(patch *Document) (*Document, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	if err := patch.Err(); err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	raw := appendMerged(make([]byte, 0, d.Len()+patch.Len()), d.Root(), patch.Root())
	if bytes.Equal(raw, d.text()) {
		return d, nil
	}
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(raw), maxBytes)
	}
	return FromCanonical(raw), nil
}

// appendMerged appends the canonical JSON of target, which may be Absent, with patch
// applied. Its recursion is as deep as the patch.
func appendMerged(dst []byte, target, patch Value) []byte {
	if patch.Kind() != Object {
		return append(dst, patch.Raw()...)
	}
	dst = append(dst, '{')
	open := len(dst)
	old, changed := membersOf(target), membersOf(patch)
	for old.more() || changed.more() {
		order := compareMembers(&old, &changed)
		if order < 0 {
			dst = appendName(dst, open, &old)
			dst = append(dst, old.value().Raw()...)
			old.advance()
			continue
		}
		var before Value
		if order == 0 {
			before = old.value()
			old.advance()
		}
		if value := changed.value(); value.Kind() != Null {
			dst = appendName(dst, open, &changed)
			dst = appendMerged(dst, before, value)
		}
		changed.advance()
	}
	return append(dst, '}')
}

func appendName(dst []byte, open int, m *members) []byte {
	dst = appendComma(dst, open)
	dst = append(dst, m.rawName()...)
	return append(dst, ':')
}

// compareMembers compares the names two members have; one that is not there is last.
func compareMembers(a, b *members) int {
	switch {
	case !b.more():
		return -1
	case !a.more():
		return 1
	}
	x, y := a.name(), b.name()
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
