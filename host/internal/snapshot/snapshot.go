// Package snapshot captures the linear memory of a guest and puts it back.
//
// An [Image] is a memory as it was captured. A [Memory] backs the linear
// memory of one guest; attached to an image, it returns to it in Restore by
// one of three ways:
//
//   - Copy copies the whole image. It works everywhere and is the fastest up
//     to some 128 KiB.
//   - Discard maps the image copy-on-write and drops written pages, which
//     then fault in again.
//   - Sticky maps the image copy-on-write too, asks the kernel which pages
//     were written (PAGEMAP_SCAN, Linux 6.7) and copies those back, so that
//     they need not fault again. The steady state takes no page fault.
package snapshot

// Mode is a way of restoring.
type Mode int

// Modes. Auto picks by size and by what the kernel can.
const (
	Auto Mode = iota
	Copy
	Discard
	Sticky
)

// String is the mode's name.
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Copy:
		return "copy"
	case Discard:
		return "discard"
	case Sticky:
		return "sticky"
	}
	return "unknown"
}

// CopyBytes is the size up to which Auto copies.
const CopyBytes = 128 << 10

const pageBytes = 64 << 10

// Memory is the linear memory of one guest. Reallocate and Free implement
// wazero's experimental.LinearMemory. A Memory is not safe for concurrent
// use.
type Memory interface {
	// Reallocate returns the memory with a new size in bytes; new bytes are
	// zero. It returns nil above the limit. After ShrinkNext it returns the
	// memory at the image's size, whatever it is asked for.
	Reallocate(size uint64) []byte
	// Free gives the memory back.
	Free()
	// Attach makes the contents those of the image, whose size the memory
	// must have, and remembers it for Restore.
	Attach(img *Image) error
	// ShrinkNext makes the next Reallocate shrink. The engine has no other
	// way to make a memory smaller.
	ShrinkNext()
	// Restore makes the contents those of the image again. The memory must
	// have the image's size. A guest whose Restore failed must not be used.
	Restore() error
	// Restored is how many bytes the last Restore wrote, or -1 if it left
	// that to the system.
	Restored() int
}

// heapMemory is a Memory on the Go heap that restores by copying.
type heapMemory struct {
	buf    []byte
	limit  uint64
	img    *Image
	shrink bool
}

var _ Memory = (*heapMemory)(nil)

// Reallocate implements Memory.
func (m *heapMemory) Reallocate(size uint64) []byte {
	if m.shrink {
		m.shrink = false
		m.buf = m.buf[:len(m.img.bytes)]
		return m.buf
	}
	old := uint64(len(m.buf))
	switch {
	case size > m.limit:
		return nil
	case size <= uint64(cap(m.buf)):
		m.buf = m.buf[:size]
		if size > old {
			clear(m.buf[old:])
		}
	default:
		buf := make([]byte, size, min(m.limit, max(size, 2*old)))
		copy(buf, m.buf)
		m.buf = buf
	}
	return m.buf
}

// Free implements Memory.
func (m *heapMemory) Free() { m.buf, m.img = nil, nil }

// Attach implements Memory.
func (m *heapMemory) Attach(img *Image) error {
	if len(m.buf) != len(img.bytes) {
		return errSize
	}
	m.img = img
	return m.Restore()
}

// ShrinkNext implements Memory.
func (m *heapMemory) ShrinkNext() { m.shrink = true }

// Restore implements Memory.
func (m *heapMemory) Restore() error {
	if m.img == nil || len(m.buf) != len(m.img.bytes) {
		return errSize
	}
	copy(m.buf, m.img.bytes)
	return nil
}

// Restored implements Memory.
func (m *heapMemory) Restored() int { return len(m.buf) }

// NewHeapMemory returns an empty memory on the Go heap.
func NewHeapMemory(limit uint64) Memory { return &heapMemory{limit: limit} }
