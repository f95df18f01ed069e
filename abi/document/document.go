package document

import (
	"bytes"
	"sync"
)

// Document is an immutable JSON document. Its tape is built at the first read
// through Root; Bytes needs none. A Document may be shared between goroutines.
type Document struct {
	raw  []byte // Invariant: canonical JSON, never written to
	once sync.Once
	tape []node
	err  error
}

// FromCanonical returns the Document of raw, which the caller hands over and which
// must be canonical JSON, as Bytes of another Document is. It does no work: raw is
// indexed when the Document is first read.
func FromCanonical(raw []byte) *Document { return &Document{raw: raw} }

// Bytes returns the canonical JSON. The caller must not write to it.
func (d *Document) Bytes() []byte { return d.raw }

// Equal reports whether both documents hold the same JSON value.
func (d *Document) Equal(other *Document) bool { return bytes.Equal(d.raw, other.raw) }
