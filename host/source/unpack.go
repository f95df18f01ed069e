package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// maxFiles bounds the entries of a layer that are looked at.
const maxFiles = 1000

// gzipMagic begins what is compressed with gzip.
const gzipMagic = "\x1f\x8b"

// readAll reads at most limit bytes, and one more to know whether there are more.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, nil
}

// unpack returns the module itself of what a source holds, which may be compressed with gzip: a guest in Go is too
// large for a ConfigMap otherwise.
func unpack(data []byte, limit int64) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte(gzipMagic)) {
		return data, nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	unpacked, err := readAll(packed, limit)
	if err != nil {
		return nil, fmt.Errorf("gzip: unpacked: %w", err)
	}
	return unpacked, nil
}

// unpackLayer returns the one module in a layer of an image, a tar that may be compressed with gzip.
func unpackLayer(data []byte, limit int64) ([]byte, error) {
	var r io.Reader = bytes.NewReader(data)
	if bytes.HasPrefix(data, []byte(gzipMagic)) {
		packed, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r = packed
	}
	// The reader of the archive skips what it is not asked for: that must end too.
	files := tar.NewReader(&boundedReader{r: r, left: limit})
	var module []byte
	name := ""
	for n := 0; ; n++ {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("tar: %w", err)
		}
		if n == maxFiles {
			return nil, fmt.Errorf("tar: more than %d entries", maxFiles)
		}
		if header.Typeflag != tar.TypeReg || path.Ext(header.Name) != ".wasm" || strings.HasPrefix(path.Base(header.Name), ".wh.") {
			continue
		}
		if module != nil {
			return nil, fmt.Errorf("tar: both %s and %s are modules, one is wanted", name, header.Name)
		}
		if module, err = readAll(files, limit); err != nil {
			return nil, fmt.Errorf("tar: %s: %w", header.Name, err)
		}
		name = header.Name
	}
	if module == nil {
		return nil, errors.New("tar: no file *.wasm is in it")
	}
	return module, nil
}

// boundedReader fails when more than left bytes are read.
type boundedReader struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, ErrTooLarge
	}
	return n, err
}
