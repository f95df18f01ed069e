//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package build

import (
	"os"
	"syscall"
)

// lock waits until no other program has a directory locked. The lock ends with
// the program, if not by the function returned.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close() // it was only read
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return func() { _ = f.Close() }, nil // which unlocks
}
