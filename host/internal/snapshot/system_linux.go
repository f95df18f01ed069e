package snapshot

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// system is what the kernel offers.
type system struct {
	pagemap *os.File // nil if PAGEMAP_SCAN is not to be had
	fd      uintptr  // of pagemap
	watcher *watcher // nil if written pages cannot be marked
	mode    Mode

	countsFaults bool // those of the process
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
	page, err := unix.MmapPtr(-1, 0, nil, uintptr(os.Getpagesize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		_ = f.Close()
		return
	}
	defer func() { _ = unix.MunmapPtr(page, uintptr(os.Getpagesize())) }()
	regions := make([]pageRegion, 1)
	var pin runtime.Pinner // the kernel is given an address, so not on the stack
	pin.Pin(&regions[0])
	defer pin.Unpin()
	if _, _, err := scan(f.Fd(), uintptr(page), uintptr(page)+uintptr(os.Getpagesize()), regions, false); err != nil {
		_ = f.Close()
		return
	}
	s.pagemap, s.fd = f, f.Fd()
	s.watcher = newWatcher()
	s.probeFaults(page)
	s.mode = Sticky
}

func (s *system) close() error {
	if s.pagemap == nil {
		return nil
	}
	return errors.Join(s.pagemap.Close(), s.watcher.close())
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
	// What is zero stays a hole: pages that are not there are neither mapped
	// around others, nor looked at to find those that were written.
	if err := unix.Ftruncate(fd, int64(len(mem))); err != nil {
		return fail(err)
	}
	for _, s := range img.contents {
		for off := s.from; off < s.to; {
			n, err := unix.Pwrite(fd, mem[off:s.to], int64(off))
			if err != nil {
				return fail(err)
			}
			off += n
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return fail(err)
	}
	b, err := unix.Mmap(fd, 0, len(mem), unix.PROT_READ, unix.MAP_PRIVATE)
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

// pageRegion is struct page_region of linux/fs.h.
type pageRegion struct{ start, end, categories uint64 }

// scanArg is struct pm_scan_arg of linux/fs.h.
type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	inverted, mask, anyOf, returned                         uint64
}

const (
	ioctlPagemapScan = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	pageIsWritten    = 1 << 1
	pageIsFile       = 1 << 2
	pageIsPresent    = 1 << 3
	pageIsSwapped    = 1 << 4
)

// scan finds private pages in [start, end), or written ones if these are
// watched. It returns how many regions it
// found and where it stopped. The regions must not be on the stack. It takes a
// few microseconds, in which the scheduler need not be let in.
func scan(pagemap, start, end uintptr, regions []pageRegion, watched bool) (int, uintptr, error) {
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
	if watched { // exactly these: the kernel then looks at page tables only
		arg.inverted, arg.anyOf, arg.mask, arg.returned = 0, 0, pageIsWritten, pageIsWritten
	}
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_IOCTL, pagemap, ioctlPagemapScan, uintptr(unsafe.Pointer(&arg)))
		switch errno {
		case 0:
			return int(n), uintptr(arg.walkEnd), nil
		case unix.EINTR:
		default:
			return 0, 0, errno
		}
	}
}
