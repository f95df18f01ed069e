//go:build unix

package etcd3

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// probeDatabase returns ErrLocked when another process has the database open. bbolt
// locks it with flock.
func probeDatabase(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer func() { _ = file.Close() }()
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}
