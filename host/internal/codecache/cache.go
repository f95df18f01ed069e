// Package codecache keeps compiled code on disk, bounded in size, and only
// gives out what is still as it was written.
//
// An entry is a directory that the engine writes its files to, beside a list of
// their sums. Entries are made aside and renamed into place when they are
// complete, so that several processes can share a cache; what is broken or was
// not finished is removed.
package codecache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cache is a directory of entries. It is safe for concurrent use, by several
// processes too.
type Cache struct {
	dir   string
	bytes int64

	mu sync.Mutex // one eviction at a time
	// size is what all entries have together, but for what other processes
	// have added since they were looked at.
	size   int64 // guarded by mu
	unseen int   // guarded by mu; entries that may be added until they are looked at again
}

const (
	sumsFile = "sums"
	aside    = "new-" // prefix of entries that are being made
	// asideKept is how long what a process did not finish is kept.
	asideKept = time.Hour
	// lookEvery is after how many new entries all are looked at, although
	// this process has not filled the cache.
	lookEvery = 64
)

// Open returns the cache in a directory, which is made if need be, of at most
// some bytes.
func Open(dir string, bytes int64) (*Cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("code cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("code cache: %w", err)
	}
	return &Cache{dir: dir, bytes: bytes}, nil
}

// State is what a cache has of an entry.
type State string

// States. Their text is a metric label.
const (
	Hit     State = "hit"
	Miss    State = "miss"
	Corrupt State = "corrupt" // there was one, which has been removed
)

// Entry is a place for what is compiled. It has to be kept by Keep or given
// back by Discard.
type Entry struct {
	// Dir is where the engine reads and writes.
	Dir string
	// State says what was found there.
	State State

	cache *Cache
	key   string
}

// Entry looks up the entry of a key, which has to be fit for a file name. If
// there is none, or it is corrupt, its directory is empty.
func (c *Cache) Entry(key string) (*Entry, error) {
	e := &Entry{Dir: filepath.Join(c.dir, key), State: Hit, cache: c, key: key}
	valid, err := verify(e.Dir)
	switch {
	case err == nil && valid:
		return e, nil
	case errors.Is(err, fs.ErrNotExist):
		e.State = Miss
	default:
		e.State = Corrupt
		if err := c.remove(e.Dir); err != nil {
			return nil, err
		}
	}
	if e.Dir, err = os.MkdirTemp(c.dir, aside); errors.Is(err, fs.ErrNotExist) { // somebody has cleared it all away
		if err = os.MkdirAll(c.dir, 0o700); err == nil {
			e.Dir, err = os.MkdirTemp(c.dir, aside)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("code cache: %w", err)
	}
	return e, nil
}

// Keep makes the entry one that is found, and the one that was used last. The
// least recently used others go if the cache is too large.
func (e *Entry) Keep() error {
	file := filepath.Join(e.Dir, sumsFile)
	now := time.Now()
	if e.State != Hit || e.grew() {
		sums, err := sum(e.Dir)
		if err == nil {
			err = e.cache.replace(file, sums)
		}
		if err != nil {
			e.Discard()
			return fmt.Errorf("code cache: %w", err)
		}
	} else {
		_ = os.Chtimes(file, now, now) // it may be gone: another process removed it
		return nil
	}
	if e.State != Hit {
		switch err := os.Rename(e.Dir, filepath.Join(e.cache.dir, e.key)); {
		case errors.Is(err, fs.ErrExist):
			e.Discard() // another process was first
			return nil
		case err != nil:
			e.Discard()
			return fmt.Errorf("code cache: %w", err)
		}
	}
	return e.cache.evict(e.key)
}

// grew tells whether the engine added files, as it does for another processor.
func (e *Entry) grew() bool {
	sums, err := os.ReadFile(filepath.Join(e.Dir, sumsFile))
	files := -1 // but for the list itself
	_ = filepath.WalkDir(e.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return nil
	})
	return err == nil && files != strings.Count(string(sums), "\n")
}

// Discard removes an entry that was not kept, unless it was found.
func (e *Entry) Discard() {
	if e.State != Hit {
		_ = os.RemoveAll(e.Dir) // else it is removed in an hour
	}
}

// Forget removes the entry, found or not.
func (e *Entry) Forget() error { return e.cache.remove(e.Dir) }

// remove removes a directory as if at once.
func (c *Cache) remove(dir string) error {
	if strings.HasPrefix(filepath.Base(dir), aside) {
		return os.RemoveAll(dir)
	}
	gone, err := os.MkdirTemp(c.dir, aside)
	if err != nil {
		return fmt.Errorf("code cache: %w", err)
	}
	if err := os.Rename(dir, filepath.Join(gone, "entry")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = os.RemoveAll(gone)
		return fmt.Errorf("code cache: %w", err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("code cache: %w", err)
	}
	return nil
}

// used is an entry and when it was used last.
type used struct {
	name  string
	at    time.Time
	bytes int64
}

// evict removes the least recently used entries but the one that was added, if
// all are too large together, until a little of the room is free; and what
// was never finished.
func (c *Cache) evict(but string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += sizeOf(filepath.Join(c.dir, but))
	c.unseen--
	if c.unseen >= 0 && c.size <= c.bytes {
		return nil
	}
	all, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("code cache: %w", err)
	}
	var entries []used
	var total int64
	for _, d := range all {
		path := filepath.Join(c.dir, d.Name())
		if strings.HasPrefix(d.Name(), aside) {
			if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > asideKept {
				_ = os.RemoveAll(path) // or the next time
			}
			continue
		}
		u := used{name: d.Name(), bytes: sizeOf(path)}
		if info, err := os.Stat(filepath.Join(path, sumsFile)); err == nil {
			u.at = info.ModTime()
		}
		total += u.bytes
		entries = append(entries, u)
	}
	c.size, c.unseen = total, lookEvery
	if c.size <= c.bytes {
		return nil
	}
	slices.SortFunc(entries, func(a, b used) int { return a.at.Compare(b.at) })
	for _, u := range entries {
		if c.size <= c.bytes-c.bytes/64 {
			break
		}
		if u.name == but {
			continue
		}
		if err := c.remove(filepath.Join(c.dir, u.name)); err != nil {
			return err
		}
		c.size -= u.bytes
	}
	return nil
}

// sizeOf is the size of the files below a directory.
func sizeOf(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil // what cannot be read takes no room
	})
	return total
}

// verify tells whether every file of an entry is as it was written. The error
// is that there is no entry, or that it cannot be read.
func verify(dir string) (bool, error) {
	want, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		if _, serr := os.Stat(dir); serr == nil {
			return false, nil
		}
		return false, err
	}
	have, err := sum(dir)
	return err == nil && have == string(want), err
}

// sum lists the files of an entry, each with its size and sum.
func sum(dir string) (string, error) {
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == filepath.Join(dir, sumsFile) {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		h := sha256.New()
		n, err := io.Copy(h, f)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(&list, "%s %d %s\n", hex.EncodeToString(h.Sum(nil)), n, filepath.ToSlash(name))
		return err
	})
	return list.String(), err
}

// replace writes a file as if at once.
func (c *Cache) replace(file, text string) error {
	f, err := os.CreateTemp(c.dir, aside)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
