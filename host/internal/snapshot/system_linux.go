package snapshot

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// system is what the kernel offers.
type system struct {
	pagemap *os.File // nil if PAGEMAP_SCAN is not to be had
	mode    Mode
}

func (s *system) open() {
	s.mode = Copy
	fd, err := unix.MemfdCreate("weir-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return
	}
	_ = unix.Close(fd)
	s.mode = Discard
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return
	}
	page, err := unix.MmapPtr(-1, 0, nil, uintptr(os.Getpagesize()), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		_ = f.Close()
		return
	}
	defer func() { _ = unix.MunmapPtr(page, uintptr(os.Getpagesize())) }()
	regions := make([]pageRegion, 1)
	var pin runtime.Pinner // the kernel is given an address, so not on the stack
	pin.Pin(&regions[0])
	defer pin.Unpin()
	if _, _, err := scan(f.Fd(), uintptr(page), uintptr(page)+uintptr(os.Getpagesize()), regions); err != nil {
		_ = f.Close()
		return
	}
	s.pagemap = f
	s.mode = Sticky
}

func (s *system) close() error {
	if s.pagemap == nil {
		return nil
	}
	return s.pagemap.Close()
}

func (s *system) best() Mode { return s.mode }

// imageFile is a sealed memfd with the image.
type imageFile struct {
	fd   int
	open bool
}

func (img *Image) openFile(mem []byte) error {
	fd, err := unix.MemfdCreate("weir-snapshot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		_ = unix.Close(fd)
		return err
	}
	for off := 0; off < len(mem); {
		n, err := unix.Pwrite(fd, mem[off:], int64(off))
		if err != nil {
			return fail(err)
		}
		off += n
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return fail(err)
	}
	b, err := unix.Mmap(fd, 0, len(mem), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		return fail(err)
	}
	img.bytes = b
	img.file = imageFile{fd: fd, open: true}
	return nil
}

func (img *Image) closeFile() error {
	if !img.file.open {
		return nil
	}
	img.file.open = false
	err := unix.Munmap(img.bytes)
	img.bytes = nil
	if cerr := unix.Close(img.file.fd); err == nil {
		err = cerr
	}
	return err
}

// mappedMemory reserves its limit of address space and never moves.
type mappedMemory struct {
	sys       *system
	base      unsafe.Pointer
	limit     uint64
	size      uint64
	committed uint64 // readable and writable from base
	img       *Image
	shrink    bool
	regions   []pageRegion
	restored  int // bytes
}

var _ Memory = (*mappedMemory)(nil)

func (e *Engine) newMapped(limit uint64) (Memory, error) {
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("snapshot: reserve %d bytes: %w", limit, err)
	}
	return &mappedMemory{sys: &e.sys, base: base, limit: limit}, nil
}

func (m *mappedMemory) slice(size uint64) []byte {
	return unsafe.Slice((*byte)(m.base), m.limit)[:size:size]
}

// Reallocate implements Memory.
func (m *mappedMemory) Reallocate(size uint64) []byte {
	if m.shrink {
		m.shrink = false
		keep := uint64(m.img.Len())
		if m.size > keep {
			tail := unsafe.Slice((*byte)(m.base), m.limit)[keep:m.size]
			if unix.Madvise(tail, unix.MADV_DONTNEED) != nil {
				clear(tail)
			}
		}
		m.size = keep
		return m.slice(keep)
	}
	if size > m.limit || m.base == nil {
		return nil
	}
	if size > m.committed {
		if unix.Mprotect(unsafe.Slice((*byte)(m.base), m.limit)[m.committed:size], unix.PROT_READ|unix.PROT_WRITE) != nil {
			return nil
		}
		m.committed = size
	}
	m.size = size
	return m.slice(size)
}

// Free implements Memory.
func (m *mappedMemory) Free() {
	if m.base != nil {
		_ = unix.MunmapPtr(m.base, uintptr(m.limit))
		m.base, m.img = nil, nil
	}
}

// Attach implements Memory.
func (m *mappedMemory) Attach(img *Image) error {
	if m.size != uint64(img.Len()) {
		return errSize
	}
	m.img = img
	if img.mode == Copy {
		return m.Restore()
	}
	_, err := unix.MmapPtr(img.file.fd, 0, m.base, uintptr(img.Len()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("snapshot: map image: %w", err)
	}
	return nil
}

// ShrinkNext implements Memory.
func (m *mappedMemory) ShrinkNext() { m.shrink = true }

// Restore implements Memory.
func (m *mappedMemory) Restore() error {
	if m.img == nil || m.size != uint64(m.img.Len()) {
		return errSize
	}
	m.restored = int(m.size)
	switch m.img.mode {
	case Sticky:
		return m.restoreWritten()
	case Discard:
		m.restored = -1
		if err := unix.Madvise(m.slice(m.size), unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("snapshot: drop pages: %w", err)
		}
		return nil
	default:
		copy(m.slice(m.size), m.img.bytes)
		return nil
	}
}

// Restored implements Memory.
func (m *mappedMemory) Restored() int { return m.restored }

// restoreWritten copies back the pages that are private to this mapping.
func (m *mappedMemory) restoreWritten() error {
	if m.regions == nil {
		m.regions = make([]pageRegion, 64)
	}
	base := uintptr(m.base)
	start, end := base, base+uintptr(m.size)
	mem := m.slice(m.size)
	m.restored = 0
	for start < end {
		n, next, err := scan(m.sys.pagemap.Fd(), start, end, m.regions)
		if err != nil {
			return fmt.Errorf("snapshot: scan pages: %w", err)
		}
		for _, r := range m.regions[:n] {
			m.restored += copy(mem[r.start-uint64(base):r.end-uint64(base)], m.img.bytes[r.start-uint64(base):])
		}
		if next <= start {
			return fmt.Errorf("snapshot: scan stopped at %d of %d bytes", start-base, m.size)
		}
		start = next
	}
	return nil
}

// pageRegion is struct page_region of linux/fs.h.
type pageRegion struct{ start, end, categories uint64 }

// scanArg is struct pm_scan_arg of linux/fs.h.
type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	inverted, mask, anyOf, returned                         uint64
}

const (
	ioctlPagemapScan = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	pageIsFile       = 1 << 2
	pageIsPresent    = 1 << 3
	pageIsSwapped    = 1 << 4
)

// scan finds private pages in [start, end). It returns how many regions it
// found and where it stopped. The regions must not be on the stack.
func scan(pagemap, start, end uintptr, regions []pageRegion) (int, uintptr, error) {
	arg := scanArg{
		size:     uint64(unsafe.Sizeof(scanArg{})),
		start:    uint64(start),
		end:      uint64(end),
		vec:      uint64(uintptr(unsafe.Pointer(&regions[0]))),
		vecLen:   uint64(len(regions)),
		inverted: pageIsFile,
		mask:     pageIsFile,
		anyOf:    pageIsPresent | pageIsSwapped,
		returned: pageIsPresent,
	}
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, pagemap, ioctlPagemapScan, uintptr(unsafe.Pointer(&arg)))
		switch errno {
		case 0:
			return int(n), uintptr(arg.walkEnd), nil
		case unix.EINTR:
		default:
			return 0, 0, errno
		}
	}
}
