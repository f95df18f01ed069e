package snapshot

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxCopies is how many copies a memory may have: the question which
	// pages were written costs each call a sixteenth.
	maxCopies = 16
	// copiesBytes is how much the calls on all copies may have written, for
	// that there be as many: it has to stay in the processor's caches.
	copiesBytes = 320 << 10
	// restoresPerCopy is how often a memory was restored for each copy that
	// it has: a copy takes up to a millisecond to make, and what is seldom
	// used stays small.
	restoresPerCopy = 256
	// restoresAfterGrowth is for how long a memory has no copies after a call
	// that has made it grow.
	restoresAfterGrowth = 256
	// restoresPerMapping is after how many restores copies that are large are
	// mapped anew, which takes a millisecond each, so that what one call has
	// written is not put back for ever.
	restoresPerMapping = 1 << 14
	// reserveBytes bounds the address space of one memory with its copies.
	reserveBytes = 8 << 30
	// keepBytes is up to how much memory that a call has grown by is cleared
	// and kept; what is more is given back.
	keepBytes = 256 << 10
)

// mappedMemory reserves the address space of its copies. They lie side by side,
// as the kernel takes its time over gaps: the first at the end, where it can
// grow without moving, each further one just below the one before. One of these
// grows over those above it, which are used up by then.
type mappedMemory struct {
	sys       *system
	base      unsafe.Pointer // of what is reserved
	limit     uint64         // of a copy
	reserved  int            // copies that there is address space for
	committed uint64         // readable and writable of the first copy

	img      *Image
	current  int             // the copy that is the guest's memory
	size     uint64          // of the current copy
	active   int             // copies in use
	mapped   [maxCopies]bool // to the image; those that are, and after current, are clean
	watched  bool            // all mapped copies are
	restores int             // since it was attached, or minus how many are to pass
	mappedAt int             // the value of restores when all copies were mapped anew
	moved    bool
	written  written
	restored int // bytes, see Restored
}

var _ Memory = (*mappedMemory)(nil)

func (e *Engine) newMapped(limit uint64) (Memory, error) {
	m := &mappedMemory{sys: &e.sys, limit: limit, reserved: maxCopies, active: 1}
	if e.sys.best() != Sticky || limit > reserveBytes/maxCopies {
		m.reserved = 1
	}
	for {
		base, err := unix.MmapPtr(-1, 0, nil, uintptr(limit)*uintptr(m.reserved), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err == nil {
			m.base = base
			return m, nil
		}
		if m.reserved == 1 {
			return nil, fmt.Errorf("snapshot: reserve %d bytes: %w", limit, err)
		}
		m.reserved = 1
	}
}

// offset is where a copy begins in what is reserved.
func (m *mappedMemory) offset(i int) uint64 {
	at := m.limit * uint64(m.reserved-1)
	if i > 0 {
		at -= uint64(i) * uint64(m.img.Len())
	}
	return at
}

// slice is the beginning of a copy.
func (m *mappedMemory) slice(i int, size uint64) []byte {
	at := m.offset(i)
	return unsafe.Slice((*byte)(m.base), m.limit*uint64(m.reserved))[at : at+size : at+size]
}

// Reallocate implements Memory.
func (m *mappedMemory) Reallocate(size uint64) []byte {
	if m.moved {
		m.moved = false
		return m.slice(m.current, m.size)
	}
	if size > m.limit || m.base == nil {
		return nil
	}
	switch mem := m.slice(m.current, size); {
	case m.current > 0 && size > m.size:
		at := unsafe.Pointer(&mem[m.size])
		if _, err := unix.MmapPtr(-1, 0, at, uintptr(size-m.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED); err != nil {
			return nil
		}
	case m.current == 0 && size > m.committed:
		if unix.Mprotect(mem[m.committed:], unix.PROT_READ|unix.PROT_WRITE) != nil {
			return nil
		}
		m.committed = size
	}
	m.size = size
	return m.slice(m.current, size)
}

// Free implements Memory.
func (m *mappedMemory) Free() {
	if m.base != nil {
		_ = unix.MunmapPtr(m.base, uintptr(m.limit)*uintptr(m.reserved))
		m.base, m.img = nil, nil
	}
}

// Attach implements Memory.
func (m *mappedMemory) Attach(img *Image) error {
	if m.size != uint64(img.Len()) || m.current != 0 {
		return errSize
	}
	m.img = img
	if img.mode == Copy {
		img.writeTo(m.slice(0, m.size))
		return nil
	}
	m.mapped, m.restores, m.mappedAt, m.active = [maxCopies]bool{}, 0, 0, 1
	if m.watched = img.mode == Sticky && m.sys.watcher != nil; m.watched && m.use(0) == nil {
		return nil
	}
	m.watched = false
	return m.use(0)
}

// use makes a clean copy the current one.
func (m *mappedMemory) use(i int) error {
	size := uint64(m.img.Len())
	if !m.mapped[i] {
		at := unsafe.Pointer(unsafe.SliceData(m.slice(i, size)))
		if _, err := unix.MmapPtr(m.img.file.fd, 0, at, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
			return fmt.Errorf("snapshot: map image: %w", err)
		}
		if m.watched {
			// A scan passes over what is mapped faster than over what is not.
			_ = unix.Madvise(m.slice(i, size), unix.MADV_POPULATE_READ)
			if err := m.sys.watcher.watch(m.slice(i, size)); err != nil {
				return fmt.Errorf("snapshot: %w", err)
			}
		}
		m.mapped[i] = true
		m.written.forget()
	}
	m.moved = m.moved || m.current != i
	m.current, m.size = i, size
	return nil
}

// Restore implements Memory.
func (m *mappedMemory) Restore() (bool, error) {
	if m.img == nil || m.size < uint64(m.img.Len()) {
		return false, errSize
	}
	size := uint64(m.img.Len())
	m.moved = m.size > size
	if m.moved {
		m.shrink(size)
	}
	switch m.img.mode {
	case Sticky:
		if err := m.next(); err != nil {
			return false, err
		}
	case Discard:
		m.restored = -1
		if err := drop(m.slice(0, size)); err != nil {
			return false, err
		}
	default:
		m.restored = int(size)
		m.img.writeTo(m.slice(0, size))
	}
	return m.moved, nil
}

// drop makes mapped memory what it was when it was mapped.
func drop(b []byte) error {
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("snapshot: drop pages: %w", err)
	}
	return nil
}

// shrink makes what the memory was grown by zero, and no longer part of it.
func (m *mappedMemory) shrink(size uint64) {
	if tail := m.slice(m.current, m.size)[size:]; len(tail) <= keepBytes || drop(tail) != nil {
		clear(tail)
	}
	m.size = size
	m.mappedAt -= m.restores + restoresAfterGrowth
	m.restores = -restoresAfterGrowth
	if m.current > 0 { // over what was above
		m.mapped = [maxCopies]bool{}
		m.written.forget()
	}
}

// Restored implements Memory.
func (m *mappedMemory) Restored() int { return m.restored }

// next makes a clean copy the current one.
func (m *mappedMemory) next() error {
	m.restores++
	was := m.current
	switch {
	case m.restores > 0 && was+1 < m.active && m.use(was+1) == nil:
		return nil
	case m.mapped[was]:
		written, err := m.restoreWritten()
		if err != nil {
			return err
		}
		m.restored = written / (was + 1)
	}
	active := min(m.reserved, 1+max(0, m.restores)/restoresPerCopy, max(1, copiesBytes/max(1, m.restored)))
	from := active // the copies from here on hold more than they are worth
	if m.restores-m.mappedAt >= restoresPerMapping && m.restored > copiesBytes/maxCopies {
		from, m.mappedAt = 0, m.restores
	}
	for i := from; i < m.active; i++ {
		if err := drop(m.slice(i, m.size)); err != nil {
			return err
		}
		m.mapped[i] = false // what was written is no longer watched
		m.written.forget()
	}
	m.active = active
	return m.use(0)
}

// restoreWritten copies back the pages that are private to the mappings of the
// copies up to the current one, and returns how many bytes these are.
func (m *mappedMemory) restoreWritten() (int, error) {
	all := m.slice(m.current, uint64(m.current+1)*m.size)
	base, written := uintptr(unsafe.Pointer(unsafe.SliceData(all))), 0
	if err := m.written.find(m.sys, base, base+uintptr(len(all)), m.watched); err != nil {
		return 0, err
	}
	for _, r := range m.written.found {
		for at, to := r.start-uint64(base), r.end-uint64(base); at < to; { // may be of several copies
			n := copy(all[at:to], m.img.bytes[at%m.size:])
			written += n
			at += uint64(n)
		}
	}
	return written, nil
}
