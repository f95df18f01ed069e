package loader

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"weir.dev/weir/host"
)

// maxArtefactBytes bounds what is read of a source, whatever the limits of the module say.
const maxArtefactBytes = 64 << 20

// artefacts keeps the bytes of modules by their digest, and reads those that a source names as a file.
type artefacts struct {
	store    *os.Root
	filesDir string
}

func newArtefacts(dir, filesDir string) (*artefacts, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("artefacts: %w", err)
	}
	store, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("artefacts: %w", err)
	}
	return &artefacts{store: store, filesDir: filesDir}, nil
}

// get returns the bytes of a digest, sha256:<hex>.
func (a *artefacts) get(digest string) ([]byte, error) {
	name, err := artefactName(digest)
	if err != nil {
		return nil, err
	}
	data, err := readBounded(a.store, name)
	if err != nil {
		return nil, err
	}
	if got := host.Digest(data); got != digest {
		return nil, fmt.Errorf("kept artefact %s is damaged: its digest is %s", digest, got)
	}
	return data, nil
}

// put keeps bytes. A crash leaves them whole or not at all.
func (a *artefacts) put(digest string, data []byte) error {
	name, err := artefactName(digest)
	if err != nil {
		return err
	}
	if _, err := a.store.Stat(name); err == nil {
		return nil
	}
	temporary := name + ".part"
	f, err := a.store.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return a.store.Rename(temporary, name)
}

// file reads a file below the module directory; a name that leads out of it is refused.
func (a *artefacts) file(name string) ([]byte, error) {
	root, err := os.OpenRoot(a.filesDir)
	if err != nil {
		return nil, fmt.Errorf("the server's module directory (--module-dir): %w", err)
	}
	defer func() { _ = root.Close() }() // opened for reading
	data, err := readBounded(root, filepath.Clean(name))
	if err != nil {
		return nil, fmt.Errorf("below the server's module directory (--module-dir): %w", err)
	}
	return data, nil
}

func readBounded(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	data, err := io.ReadAll(io.LimitReader(f, maxArtefactBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxArtefactBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxArtefactBytes)
	}
	return data, nil
}

func artefactName(digest string) (string, error) {
	hex, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", fmt.Errorf("digest %q is not sha256: and 64 hexadecimal digits", digest)
	}
	return hex + ".wasm", nil
}
