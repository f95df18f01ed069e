// Package snapshot captures the linear memory of a guest and puts it back.
//
// An [Image] is a memory as it was captured. A [Memory] backs the linear
// memory of one guest; attached to an image, it returns to it in Restore by
// one of three ways:
//
//   - Copy writes the whole image: it copies what has contents and clears what
//     is zero. It works everywhere.
//   - Discard maps the image copy-on-write and drops written pages, which
//     then fault in again.
//   - Sticky maps the image copy-on-write too, asks the kernel which pages
//     were written (PAGEMAP_SCAN, Linux 6.7) and copies those back, so that
//     they need not fault again. The steady state takes no page fault, so as
//     long as the process has taken none the answer is that of the last time
//     and the kernel need not look for it. What any question costs does not
//     depend on how many pages there are, so a memory that is restored often
//     has several copies: Restore moves on to the next that is clean, and the
//     kernel is asked about all at once when there is none.
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

const pageBytes = 64 << 10

// Memory is the linear memory of one guest. Reallocate and Free implement
// wazero's experimental.LinearMemory. A Memory is not safe for concurrent
// use.
type Memory interface {
	// Reallocate returns the memory with a new size in bytes; new bytes are
	// zero. It returns nil above the limit. After a Restore that moved the
	// memory it returns it where it is now and at the image's size, whatever
	// it is asked for.
	Reallocate(size uint64) []byte
	// Free gives the memory back.
	Free()
	// Attach makes the contents those of the image, whose size the memory
	// must have, and remembers it for Restore.
	Attach(img *Image) error
	// Restore makes size and contents those of the image again. If it has
	// moved the memory, or made it smaller, the engine has to be told by
	// growing it: it has no other way to learn that. A guest whose Restore
	// failed must not be used.
	Restore() (moved bool, err error)
	// Restored is how many bytes were written for the last Restore, or -1 if
	// that was left to the system. Where several are made at once it is
	// their average.
	Restored() int
}

// heapMemory is a Memory on the Go heap that restores by copying.
type heapMemory struct {
	buf   []byte
	limit uint64
	img   *Image
	moved bool
}

var _ Memory = (*heapMemory)(nil)

// Reallocate implements Memory.
func (m *heapMemory) Reallocate(size uint64) []byte {
	if m.moved {
		m.moved = false
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
	img.writeTo(m.buf)
	return nil
}

// Restore implements Memory.
func (m *heapMemory) Restore() (bool, error) {
	if m.img == nil || len(m.buf) < len(m.img.bytes) {
		return false, errSize
	}
	m.moved = len(m.buf) > len(m.img.bytes)
	m.buf = m.buf[:len(m.img.bytes)]
	m.img.writeTo(m.buf)
	return m.moved, nil
}

// Restored implements Memory.
func (m *heapMemory) Restored() int { return len(m.buf) }

// NewHeapMemory returns an empty memory on the Go heap.
func NewHeapMemory(limit uint64) Memory { return &heapMemory{limit: limit} }
