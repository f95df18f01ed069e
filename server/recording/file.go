package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// fileMode: a recording is for its owner alone to read.
const fileMode = 0o600

// maxBuffered is how many bytes wait for a flush.
const maxBuffered = 64 << 10

// file is appended to, and another one is begun when it has grown to its size.
type file struct {
	name    string
	max     int64
	backups int

	mu    sync.Mutex
	f     *os.File // guarded by mu; nil: it could not be opened, or is closed
	lines []byte   // guarded by mu; whole lines that are not written yet
	size  int64    // guarded by mu; of the file and of lines
	done  tally    // guarded by mu
}

// tally counts what became of lines: those that the file has, their bytes, and those that are lost.
type tally struct {
	written, bytes, lost int
}

// open opens a file to append to, for its owner alone: of one that others may read or write, the mode is changed.
func open(name string, max int64, backups int) (*file, error) {
	f := &file{name: name, max: max, backups: backups}
	return f, f.openLocked()
}

func (f *file) openLocked() error {
	handle, err := os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	size, err := prepare(handle)
	if err != nil {
		return errors.Join(fmt.Errorf("recording: %w", err), handle.Close())
	}
	f.f, f.size = handle, size
	return nil
}

// prepare gives a file its mode, ends a last line that a crash cut off, and returns the size. What is no file, as a
// terminal, is left as it is.
func prepare(handle *os.File) (size int64, err error) {
	info, err := handle.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	if info.Mode().Perm()&^fileMode != 0 {
		if err := handle.Chmod(fileMode); err != nil {
			return 0, fmt.Errorf("others may use it: %w", err)
		}
	}
	size = info.Size()
	if size == 0 {
		return 0, nil
	}
	last, err := lastByte(handle.Name(), size)
	if err != nil || last == '\n' {
		return size, err
	}
	n, err := handle.WriteString("\n")
	return size + int64(n), err
}

func lastByte(name string, size int64) (_ byte, err error) {
	handle, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, handle.Close()) }()
	var last [1]byte
	_, err = handle.ReadAt(last[:], size-1)
	return last[0], err
}

// write appends a line, which has its end.
func (f *file) write(line []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil { // it could not be opened after it was full
		if err := f.openLocked(); err != nil {
			f.done.lost++
			return err
		}
	}
	if f.size > 0 && f.size+int64(len(line)) > f.max {
		if err := f.rotateLocked(); err != nil {
			f.done.lost++
			return err
		}
	}
	f.lines = append(f.lines, line...)
	f.size += int64(len(line))
	if len(f.lines) < maxBuffered {
		return nil
	}
	return f.flushOrReopenLocked()
}

// flush writes what is in memory.
func (f *file) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return nil
	}
	return f.flushOrReopenLocked()
}

func (f *file) flushOrReopenLocked() error {
	err := f.flushLocked()
	if err == nil {
		return nil
	}
	_ = f.f.Close() // what could not be written has been told
	f.f = nil
	return errors.Join(err, f.openLocked())
}

// flushLocked leaves nothing in memory: what cannot be written is lost.
func (f *file) flushLocked() error {
	if len(f.lines) == 0 {
		return nil
	}
	n, err := f.f.Write(f.lines)
	whole := bytes.LastIndexByte(f.lines[:n], '\n') + 1
	written := bytes.Count(f.lines[:whole], []byte("\n"))
	f.done.written += written
	f.done.bytes += whole
	f.done.lost += bytes.Count(f.lines[whole:], []byte("\n"))
	if f.lines = f.lines[:0]; cap(f.lines) > 4*maxBuffered {
		f.lines = nil
	}
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// take returns what became of lines since it was asked last.
func (f *file) take() tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := f.done
	f.done = tally{}
	return done
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
	err := errors.Join(f.flushLocked(), f.f.Close())
	f.f = nil
	return err
}
