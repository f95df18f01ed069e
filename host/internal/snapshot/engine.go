package snapshot

import (
	"bytes"
	"errors"
)

var errSize = errors.New("snapshot: memory does not have the image's size")

// Engine makes memories and images in the best way this system offers. It is
// safe for concurrent use.
type Engine struct {
	mode Mode
	sys  system
}

// NewEngine returns an Engine. A mode that the system does not offer falls
// back to the next one it does: Sticky, Discard, Copy.
func NewEngine(mode Mode) *Engine {
	e := &Engine{mode: mode}
	e.sys.open()
	return e
}

// Close gives back what the engine holds. Its memories must be freed.
func (e *Engine) Close() error { return e.sys.close() }

// discardBytes is the size above which Auto prefers Discard to Copy: page
// faults are so dear that a few megabytes are copied sooner.
const discardBytes = 16 << 20

// modeFor is the mode for an image of a size, where best is the best that
// the system offers.
func modeFor(mode, best Mode, size int) Mode {
	switch {
	case mode != Auto:
		return min(mode, best)
	case best == Sticky:
		return Sticky
	case size <= discardBytes:
		return Copy
	}
	return best
}

// Image is a captured memory. It is immutable and safe for concurrent use.
type Image struct {
	bytes []byte // Invariant: never written to after Capture
	mode  Mode
	file  imageFile
	// contents are the parts that are not zero, in order.
	contents []span
}

// span is a range of bytes.
type span struct{ from, to int }

// spanBytes is the least that is cleared or copied by itself.
const spanBytes = 4 << 10

// spans finds what is not zero.
func spans(b []byte) []span {
	var all []span
	for from := 0; from < len(b); from += spanBytes {
		to := min(from+spanBytes, len(b))
		if bytes.Count(b[from:to], []byte{0}) == to-from {
			continue
		}
		if n := len(all); n > 0 && all[n-1].to == from {
			all[n-1].to = to
		} else {
			all = append(all, span{from, to})
		}
	}
	return all
}

// writeTo makes b, which has the image's size, the image.
func (img *Image) writeTo(b []byte) {
	at := 0
	for _, s := range img.contents {
		clear(b[at:s.from])
		copy(b[s.from:s.to], img.bytes[s.from:s.to])
		at = s.to
	}
	clear(b[at:])
}

// Len is the image's size in bytes.
func (img *Image) Len() int { return len(img.bytes) }

// Mode is how memories attached to the image are restored.
func (img *Image) Mode() Mode { return img.mode }

// Bytes are the image's contents, which the caller must not write to, nor
// use after Close.
func (img *Image) Bytes() []byte { return img.bytes }

// Capture copies a memory.
func (e *Engine) Capture(mem []byte) (*Image, error) {
	img := &Image{mode: modeFor(e.mode, e.sys.best(), len(mem))}
	if len(mem) == 0 {
		img.mode = Copy
	}
	img.contents = spans(mem)
	if img.mode != Copy && img.openFile(mem) == nil {
		return img, nil
	}
	img.mode = Copy
	img.bytes = bytes.Clone(mem)
	return img, nil
}

// Close frees the image. No memory may be attached to it any more.
func (img *Image) Close() error { return img.closeFile() }

// NewMemory returns an empty memory that grows up to limit bytes.
func (e *Engine) NewMemory(limit uint64) (Memory, error) {
	limit = (limit + pageBytes - 1) / pageBytes * pageBytes
	if e.mode == Copy || e.sys.best() == Copy { // as other systems do
		return &heapMemory{limit: limit}, nil
	}
	return e.newMapped(limit)
}
