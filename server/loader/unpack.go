package loader

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// unpack returns the module itself of what a source holds, which may be compressed with gzip: a guest in Go
// is too large for a ConfigMap otherwise.
func unpack(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(packed, maxArtefactBytes+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if len(unpacked) > maxArtefactBytes {
		return nil, fmt.Errorf("gzip: unpacked it is larger than %d bytes", maxArtefactBytes)
	}
	return unpacked, nil
}
