package document

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// MaxDepth is the most containers that may be nested in one another, as in
// encoding/json and sigs.k8s.io/json. It bounds every Document, however made.
const MaxDepth = 10000

// Document is an immutable JSON document. Its tape is built at the first read
// through Root; Bytes needs none. A Document may be shared between goroutines.
// The methods of a nil Document are those of one that holds nothing.
type Document struct {
	raw     []byte // Invariant: canonical JSON, never written to; nil until text where there are pieces
	pieces  Pieces // nil: raw is there from the start
	joined  sync.Once
	indexed bool // tape was there from the start; never written to after construction
	once    sync.Once
	tape    []node
	err     error
	widest  atomic.Uint32 // Value.Widest and one, once it was asked for
}

// IngestOptions bounds what Ingest accepts.
type IngestOptions struct {
	MaxDepth int // nested containers; 0, or more than MaxDepth, is MaxDepth
	MaxBytes int // length of the text; 0, or more than 256 MiB, is 256 MiB
}

// Duplicate is a member whose name occurred before in its object.
type Duplicate struct {
	// Path is spelled as sigs.k8s.io/json spells it, names unquoted:
	// `spec.replicas`, `spec.containers[0].name`, `[0].name`.
	Path string
}

// Parse returns the Document of raw, which may be any JSON text. It is Ingest for
// text that the project itself or an author wrote: a duplicate member is a
// *SyntaxError too. raw is not retained.
func Parse(raw []byte) (*Document, error) {
	d, duplicates, err := ingest(raw, IngestOptions{}, 1)
	if err != nil {
		return nil, err
	}
	if len(duplicates) > 0 {
		first := duplicates[0]
		return nil, syntaxError(first.offset, "duplicate field "+quoteText(first.Path))
	}
	return d, nil
}

// Ingest returns the Document of raw, the JSON text a client sent. raw is not
// retained.
//
// The last of several members of one name wins. Each such name is reported once, in
// the order of the text, a member's that lost to another included; at most the first
// 100 are, as by sigs.k8s.io/json.
//
// Names are case-sensitive. A number keeps its spelling; one that no 64-bit float
// can hold is refused, as sigs.k8s.io/json refuses it. Stricter than encoding/json,
// which puts U+FFFD in their place, Ingest refuses invalid UTF-8 and lone surrogates.
//
// The error is a *SyntaxError, or wraps ErrTooLarge.
func Ingest(raw []byte, opts IngestOptions) (*Document, []Duplicate, error) {
	d, found, err := ingest(raw, opts, maxDuplicates)
	if err != nil || len(found) == 0 {
		return d, nil, err
	}
	duplicates := make([]Duplicate, len(found))
	for i := range found {
		duplicates[i] = found[i].Duplicate
	}
	return d, duplicates, nil
}

func ingest(raw []byte, opts IngestOptions, limit int) (*Document, []duplicate, error) {
	if opts.MaxBytes <= 0 || opts.MaxBytes > maxBytes {
		opts.MaxBytes = maxBytes
	}
	if opts.MaxDepth <= 0 || opts.MaxDepth > MaxDepth {
		opts.MaxDepth = MaxDepth
	}
	if len(raw) > opts.MaxBytes {
		return nil, nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(raw), opts.MaxBytes)
	}
	if len(raw) > scratchBytes {
		tape, canonical, err := scan(raw, room(len(raw)), opts.MaxDepth)
		switch {
		case err != nil:
			return nil, nil, err
		case canonical:
			return &Document{raw: bytes.Clone(raw[:tape[0].end]), tape: kept(tape), indexed: true}, nil, nil
		}
		return canonicalized(raw, tape, limit)
	}
	var scratch [scratchNodes]node
	tape, canonical, err := scan(raw, scratch[:0], opts.MaxDepth)
	switch {
	case err != nil:
		return nil, nil, err
	case canonical:
		return &Document{raw: bytes.Clone(raw[:tape[0].end]), tape: slices.Clone(tape), indexed: true}, nil, nil
	}
	return canonicalized(raw, tape, limit)
}

// canonicalized makes the Document of a text that is not canonical. The tape is not kept.
func canonicalized(raw []byte, tape []node, limit int) (*Document, []duplicate, error) {
	d, hasDuplicates := canonicalize(raw, tape)
	if !hasDuplicates {
		return d, nil, nil
	}
	return d, findDuplicates(raw, tape, limit), nil
}

const (
	// scratchNodes is the length of the tape that is built on the stack before the
	// document's own, exact one is allocated: enough for some 3 KiB of an object.
	scratchNodes = 320
	// scratchBytes is the longest text that a scratch is for.
	scratchBytes = 4 << 10
	// nodeBytes is how long a text there is for each node, or more: in objects of Kubernetes 10 to 15
	// bytes, so that they fit the room that is made for them.
	nodeBytes = 10
)

// room makes a tape of the heap for a text of so many bytes.
func room(bytes int) []node { return make([]node, 0, bytes/nodeBytes) }

// kept gives the tape of a document: this one, or a copy if much of it is to spare.
func kept(tape []node) []node {
	if cap(tape)-len(tape) <= len(tape)/4 {
		return tape
	}
	return slices.Clone(tape)
}

// FromCanonical returns the Document of raw, which the caller hands over and which
// must be canonical JSON, as Bytes of another Document is. It does no work: raw is
// indexed when the Document is first read. Bytes that turn out not to be canonical
// make an Absent Root, and an Err that says why.
func FromCanonical(raw []byte) *Document { return &Document{raw: raw} }

// index builds the tape. It runs once.
func (d *Document) index() {
	d.text()
	if len(d.raw) > scratchBytes {
		tape, err := scanCanonical(d.raw, room(len(d.raw)))
		if d.err = err; err == nil {
			d.tape = kept(tape)
		}
		return
	}
	var scratch [scratchNodes]node
	tape, err := scanCanonical(d.raw, scratch[:0])
	if d.err = err; err == nil {
		d.tape = slices.Clone(tape)
	}
}

// scanCanonical returns the tape of canonical JSON, which it builds in what tape has room for.
func scanCanonical(raw []byte, tape []node) ([]node, error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(raw), maxBytes)
	}
	tape, canonical, err := scan(raw, tape, MaxDepth)
	if err == nil && (!canonical || int(tape[0].end) != len(raw)) {
		err = errNotCanonical
	}
	return tape, err
}

// ready builds the tape if need be and reports whether there is one.
func (d *Document) ready() bool {
	if d == nil {
		return false
	}
	if !d.indexed {
		d.once.Do(d.index)
	}
	return d.err == nil
}

// Err returns nil, or why the bytes given to FromCanonical make no document. It
// indexes the document when that has not been done.
func (d *Document) Err() error {
	if d == nil {
		return errAbsent
	}
	d.ready()
	return d.err
}

// Bytes returns the canonical JSON. The caller must not write to it.
func (d *Document) Bytes() []byte {
	if d == nil {
		return nil
	}
	return d.text()
}

// text returns raw.
func (d *Document) text() []byte {
	if d.pieces != nil {
		d.joined.Do(func() { d.raw = d.pieces.Bytes() })
	}
	return d.raw
}

// Equal reports whether both documents hold the same JSON value. Numbers are equal
// when they are spelled alike.
func (d *Document) Equal(other *Document) bool {
	return d == other || bytes.Equal(d.Bytes(), other.Bytes())
}

// Root returns the whole document, Absent when Err is not nil.
func (d *Document) Root() Value {
	if !d.ready() {
		return Value{}
	}
	return Value{d: d}
}

// Get returns Root().Get(path...).
func (d *Document) Get(path ...string) Value { return d.Root().Get(path...) }

// MarshalJSON implements json.Marshaler.
func (d *Document) MarshalJSON() ([]byte, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	return d.text(), nil
}
