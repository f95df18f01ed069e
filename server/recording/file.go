package recording

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// file is appended to, and another one is begun when it has grown to its size.
type file struct {
	name    string
	max     int64
	backups int

	mu   sync.Mutex
	f    *os.File      // guarded by mu; nil: it could not be opened, or is closed
	w    *bufio.Writer // guarded by mu
	size int64         // guarded by mu
}

// open opens a file to append to, for its owner alone.
func open(name string, max int64, backups int) (*file, error) {
	f := &file{name: name, max: max, backups: backups}
	return f, f.openLocked()
}

func (f *file) openLocked() error {
	handle, err := os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	info, err := handle.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("recording: %w", err), handle.Close())
	}
	f.f, f.size = handle, info.Size()
	f.w = bufio.NewWriterSize(handle, 64<<10)
	return nil
}

// write appends a line.
func (f *file) write(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil { // it could not be opened after it was full
		if err := f.openLocked(); err != nil {
			return err
		}
	}
	if f.size > 0 && f.size+int64(len(line)) > f.max {
		if err := f.rotateLocked(); err != nil {
			return err
		}
	}
	n, err := f.w.Write(line)
	if f.size += int64(n); err != nil {
		// A bufio.Writer that failed once fails for ever.
		return errors.Join(fmt.Errorf("recording: %w", err), f.reopenLocked())
	}
	return nil
}

// flush writes what is in memory.
func (f *file) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return nil
	}
	if err := f.w.Flush(); err != nil {
		return errors.Join(fmt.Errorf("recording: %w", err), f.reopenLocked())
	}
	return nil
}

func (f *file) reopenLocked() error {
	_ = f.f.Close() // what could not be written has been told
	f.f = nil
	return f.openLocked()
}

// rotateLocked makes FILE.1 of FILE and begins another.
func (f *file) rotateLocked() error {
	err := f.closeLocked()
	if f.backups < 0 {
		err = errors.Join(err, os.Remove(f.name))
	} else {
		for i := f.backups; i > 0 && err == nil; i-- {
			from := f.name
			if i > 1 {
				from = fmt.Sprintf("%s.%d", f.name, i-1)
			}
			if e := os.Rename(from, fmt.Sprintf("%s.%d", f.name, i)); !errors.Is(e, fs.ErrNotExist) {
				err = e
			}
		}
	}
	return errors.Join(err, f.openLocked())
}

// close writes what is in memory and closes the file.
func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closeLocked()
}

func (f *file) closeLocked() error {
	if f.f == nil {
		return nil
	}
	err := errors.Join(f.w.Flush(), f.f.Close())
	f.f = nil
	return err
}
