package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// given are bytes that somebody has.
type given struct {
	name string
	data []byte
}

// Given returns a source of bytes that the caller has, such as the key of a ConfigMap; name names it in messages. The
// bytes must not change any more.
func Given(name string, data []byte) Source { return given{name, data} }

// Fetch implements Source.
func (g given) Fetch(context.Context) (*Artefact, error) {
	if len(g.data) > DefaultMaxBytes {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", g.name, ErrTooLarge, int64(DefaultMaxBytes))
	}
	return artefactOf(g.data, DefaultMaxBytes)
}

// String implements Source.
func (g given) String() string { return g.name }

// file is a file below a directory.
type file struct{ dir, name string }

// File returns a source that reads the file name below the directory dir. A name that leads out of it, by links too,
// is refused.
func File(dir, name string) Source { return file{dir, name} }

// Fetch implements Source.
func (f file) Fetch(context.Context) (*Artefact, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // nothing is written below it
	data, err := ReadFile(root, filepath.Clean(f.name), DefaultMaxBytes)
	if err != nil {
		return nil, err
	}
	return artefactOf(data, DefaultMaxBytes)
}

// String implements Source.
func (f file) String() string { return f.name }

// ReadFile reads a regular file of at most limit bytes. A larger one is ErrTooLarge.
func ReadFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	data, err := readAll(f, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}
