package snapshot

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxWritten bounds the regions that are remembered.
	maxWritten = 1 << 10
	// maxPause bounds how often the count of faults is not looked at after it
	// has changed each time: that of a process that takes faults all the time.
	maxPause = 64
)

// written is which pages of a memory's copies are private to them, as the
// kernel told when the process had taken a number of page faults. Nobody writes
// to another page without one more, so while that number stands, it need not
// walk the page tables to tell the same again.
type written struct {
	regions []pageRegion // those it told last
	found   []pageRegion // all that it told, if known
	from    uintptr      // where the copies begin that it was asked about
	faults  int64        // before it was asked
	known   bool
	pause   int // restores to go in which the faults are not counted
	backoff int // the length of the next pause
}

// forget has the kernel asked again: mappings have changed.
func (w *written) forget() { w.known = false }

// find makes w.found the private pages in [start, end).
func (w *written) find(sys *system, start, end uintptr, watched bool) error {
	faults, counted := int64(0), false
	switch {
	case !sys.countsFaults:
	case w.pause > 0:
		w.pause--
		w.known = false
	default:
		faults, counted = sys.faults()
		if counted && w.known && w.from == start && w.faults == faults {
			w.backoff = 0
			return nil
		}
		if w.known { // it has changed
			w.backoff = min(2*w.backoff+1, maxPause)
			w.pause = w.backoff - 1
		}
	}
	if w.regions == nil {
		w.regions = make([]pageRegion, 64)
	}
	w.found = w.found[:0]
	for from := start; from < end; {
		n, next, err := scan(sys.fd, from, end, w.regions, watched)
		if err != nil {
			return fmt.Errorf("snapshot: scan pages: %w", err)
		}
		if next <= from {
			return fmt.Errorf("snapshot: scan stopped at %d of %d bytes", from-start, end-start)
		}
		w.found = append(w.found, w.regions[:n]...)
		from = next
	}
	w.from, w.faults, w.known = start, faults, counted && len(w.found) <= maxWritten
	return nil
}

// faults is how many page faults the process has taken, of any thread. It is
// false if the kernel does not say.
func (s *system) faults() (int64, bool) {
	var u unix.Rusage
	_, _, errno := unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_SELF, uintptr(unsafe.Pointer(&u)), 0)
	return u.Minflt + u.Majflt, errno == 0
}

// probeFaults finds out whether faults are counted: not where another program
// plays the kernel.
func (s *system) probeFaults(page unsafe.Pointer) {
	before, counted := s.faults()
	*(*byte)(page) = 1
	after, still := s.faults()
	s.countsFaults = counted && still && after > before
}
