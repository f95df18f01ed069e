package document

// node is one token of a tape: a value or the name of a member.
//
// A value's node is followed by the nodes of what it contains; the name of a member
// is followed by the node of its value. The tape's first node is the root.
type node struct {
	start uint32 // offset of the first byte; a string's is its quote
	end   uint32 // offset behind the last byte
	next  uint32 // index behind this value; a name's is behind its member
	meta  uint32 // kind, escaped, and the number of members or elements
}

const (
	kindMask    = 0x7
	escapedFlag = 0x8 // the string holds a backslash
	countShift  = 4
	countOne    = 1 << countShift

	// maxBytes bounds every document, so that offsets and counts fit a node:
	// n bytes hold at most n/2 elements.
	maxBytes = 1 << 28
)

func (n *node) kind() Kind    { return Kind(n.meta & kindMask) }
func (n *node) escaped() bool { return n.meta&escapedFlag != 0 }
func (n *node) count() int    { return int(n.meta >> countShift) }

// body returns the text of a string or name between its quotes.
func (n *node) body(raw []byte) []byte { return raw[n.start+1 : n.end-1] }

// text returns the decoded text of a string or name. It aliases raw unless
// it holds an escape.
func (n *node) text(raw []byte) string {
	body := n.body(raw)
	if !n.escaped() {
		return alias(body)
	}
	return string(appendUnescaped(make([]byte, 0, len(body)), body))
}

// is reports whether the decoded text of a string or name is s.
func (n *node) is(raw []byte, s string) bool {
	if !n.escaped() {
		// The length first: most names that differ differ in it, and then the
		// document's bytes need not be fetched.
		return int(n.end-n.start) == len(s)+2 && string(n.body(raw)) == s
	}
	return unescapedEqual(n.body(raw), s)
}
