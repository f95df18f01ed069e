package snapshot

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watcher has the kernel mark the pages that are written to (userfaultfd,
// write-protect mode, asynchronous: nobody handles a fault). Without it, a
// scan has to look up what each mapped page is, which takes it ten times as
// long; and reads map sixteen pages at a time. It needs no privilege, but is
// not to be had everywhere.
type watcher struct{ file *os.File }

const (
	uffdUserModeOnly = 1
	uffdAPI          = 0xaa

	uffdFeatureWPShmem       = 1 << 12
	uffdFeatureWPUnpopulated = 1 << 13
	uffdFeatureWPAsync       = 1 << 15

	uffdioAPI          = 0xc018aa3f // _IOWR(0xaa, 0x3f, struct uffdio_api)
	uffdioRegister     = 0xc020aa00 // _IOWR(0xaa, 0x00, struct uffdio_register)
	uffdioWriteProtect = 0xc018aa06 // _IOWR(0xaa, 0x06, struct uffdio_writeprotect)
	uffdioModeWP       = 1 << 1     // of a registration
	uffdioProtect      = 1 << 0     // of a write protection
)

// newWatcher is nil if the kernel does not offer it.
func newWatcher() *watcher {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if errno != 0 {
		return nil
	}
	w := &watcher{file: os.NewFile(fd, "userfaultfd")}
	api := struct{ api, features, ioctls uint64 }{uffdAPI, uffdFeatureWPAsync | uffdFeatureWPUnpopulated | uffdFeatureWPShmem, 0}
	if w.ioctl(uffdioAPI, unsafe.Pointer(&api)) != nil {
		_ = w.file.Close()
		return nil
	}
	return w
}

// watch marks what is written to a mapping from now on.
func (w *watcher) watch(b []byte) error {
	start, n := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uint64(len(b))
	register := struct{ start, len, mode, ioctls uint64 }{start, n, uffdioModeWP, 0}
	if err := w.ioctl(uffdioRegister, unsafe.Pointer(&register)); err != nil {
		return os.NewSyscallError("userfaultfd: register", err)
	}
	protect := struct{ start, len, mode uint64 }{start, n, uffdioProtect}
	return os.NewSyscallError("userfaultfd: write-protect", w.ioctl(uffdioWriteProtect, unsafe.Pointer(&protect)))
}

func (w *watcher) ioctl(request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, w.file.Fd(), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR, unix.EAGAIN:
		default:
			return errno
		}
	}
}

// close gives it back; nothing that it watched may be used.
func (w *watcher) close() error {
	if w == nil {
		return nil
	}
	return w.file.Close()
}

// unwatch does without a watcher.
func (s *system) unwatch() {
	_ = s.watcher.close()
	s.watcher = nil
}
