package document

// Pieces is canonical JSON that is kept in pieces, which other texts may have too.
type Pieces interface {
	// Bytes returns the whole.
	Bytes() []byte
	// Len returns the length of the whole in bytes.
	Len() int
	// Pieces appends the pieces, in their order, which nobody may write to.
	Pieces(dst [][]byte) [][]byte
}

// FromPieces is FromCanonical for a text that is kept in pieces. It is put together when it is first read, or asked for its
// Bytes, never for its Pieces.
func FromPieces(text Pieces) *Document { return &Document{pieces: text} }

// FromAllPieces is FromPieces for n texts, of which text returns the i-th. The Documents are allocated together: the one
// that lives longest keeps all.
func FromAllPieces(n int, text func(i int) Pieces) []*Document {
	docs, together := make([]*Document, n), make([]Document, n)
	for i := range docs {
		docs[i] = &together[i]
		docs[i].pieces = text(i)
	}
	return docs
}

// Pieces appends the pieces that the canonical JSON is kept in, one where it is whole. The caller must not write to them.
func (d *Document) Pieces(dst [][]byte) [][]byte {
	switch {
	case d == nil:
		return dst
	case d.pieces != nil:
		return d.pieces.Pieces(dst)
	}
	return append(dst, d.raw)
}

// Len returns the length of the canonical JSON in bytes.
func (d *Document) Len() int {
	switch {
	case d == nil:
		return 0
	case d.pieces != nil:
		return d.pieces.Len()
	}
	return len(d.raw)
}
