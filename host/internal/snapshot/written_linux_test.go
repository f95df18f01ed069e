package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// tellsWritten tells whether the kernel is of a version that has PAGEMAP_SCAN:
// Linux 6.7 or later.
func tellsWritten(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("the kernel's release %q: %v", release, err)
	}
	return major > 6 || major == 6 && minor >= 7
}

// TestWritten has the kernel be asked which pages were written when, and only
// when, a page was written to that was not before.
func TestWritten(t *testing.T) {
	e := NewEngine(Sticky)
	defer e.Close()
	if e.sys.best() != Sticky || !e.sys.countsFaults {
		why := fmt.Sprintf("the kernel cannot tell: the best way is %s, faults are counted: %v", e.sys.best(), e.sys.countsFaults)
		if os.Getenv("CI") != "" && tellsWritten(t) {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	want := bytes.Repeat([]byte("weir"), 16*page/4)
	img, err := e.Capture(want)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	memory, err := e.NewMemory(16 * page)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Free()
	mem, ok := memory.(*mappedMemory)
	if !ok {
		t.Fatalf("%T", memory)
	}
	buf := mem.Reallocate(16 * page)
	if err := mem.Attach(img); err != nil {
		t.Fatal(err)
	}
	// turn restores all copies after writes at an offset.
	turn := func(at int) error {
		for {
			buf[at] ^= 0xff
			moved, err := mem.Restore()
			if err != nil {
				return err
			}
			if moved {
				buf = mem.Reallocate(0)
			}
			if !bytes.Equal(buf, want) {
				t.Fatal("not restored")
			}
			if mem.current == 0 {
				return nil
			}
		}
	}
	for mem.active < maxCopies {
		if err := turn(100); err != nil {
			t.Fatal(err)
		}
	}
	fd := e.sys.fd
	deaf := func(f func() error) error {
		e.sys.fd = ^uintptr(0)
		err := f()
		e.sys.fd = fd
		return err
	}
	quiet := 0
	for at := page; at < 15*page; at += page / 4 {
		for range 8 { // the process itself takes faults too
			mem.written.pause = 0
			if err := turn(100); err != nil {
				t.Fatal(err)
			}
			if deaf(func() error { return turn(100) }) == nil {
				quiet++
				break
			}
			if err := turn(100); err != nil { // who was refused still has his pages
				t.Fatal(err)
			}
		}
		if deaf(func() error { return turn(at) }) == nil {
			t.Fatalf("a write at %d was not noticed", at)
		}
		if err := turn(at); err != nil {
			t.Fatal(err)
		}
	}
	if quiet == 0 {
		t.Error("the kernel is always asked")
	}
}
