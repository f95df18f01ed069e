package etcd3

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// lockName is the file in the data directory whose lock its user holds.
const lockName = "weir.lock"

// dirLock is the right to use a data directory.
type dirLock struct {
	file *fileutil.LockedFile
}

// lockDir takes the right to use dir, or returns ErrLocked at once. etcd itself would
// wait for ever for the lock on its database, so that is probed too.
func lockDir(dir, database string) (*dirLock, error) {
	file, err := fileutil.TryLockFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := probeDatabase(database); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &dirLock{file: file}, nil
}

// Unlock gives the right up. The file stays: removing it would let two processes
// lock two files of the same name.
func (l *dirLock) Unlock() error { return l.file.Close() }
