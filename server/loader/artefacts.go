package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weir.dev/weir/host"
	"weir.dev/weir/host/source"
)

const (
	// maxArtefactBytes bounds what is read of a source, whatever the limits of the module say.
	maxArtefactBytes = source.DefaultMaxBytes
	// artefactAge is how long an artefact stays that no module uses any more.
	artefactAge = time.Hour
	// prunePause is the least time between two looks for such artefacts.
	prunePause = 10 * time.Minute
)

// artefacts keeps the bytes of modules by their digest, and reads those that a source names as a file.
type artefacts struct {
	store    *os.Root
	filesDir string

	mu     sync.Mutex // held for every change of the store
	pruned time.Time  // guarded by mu
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
	data, err := source.ReadFile(a.store, name, maxArtefactBytes)
	if err != nil {
		return nil, fmt.Errorf("kept artefact: %w", err)
	}
	if got := host.Digest(data); got != digest {
		return nil, fmt.Errorf("kept artefact %s is damaged: its digest is %s", digest, got)
	}
	return data, nil
}

// put keeps bytes. A crash leaves them whole or not at all; what is damaged is replaced.
func (a *artefacts) put(digest string, data []byte) error {
	name, err := artefactName(digest)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.get(digest); err == nil {
		now := time.Now()
		return a.store.Chtimes(name, now, now)
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

// prune removes what is older than artefactAge, now and then, unless its digest is to be kept.
func (a *artefacts) prune(keep map[string]bool, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.pruned) < prunePause {
		return nil
	}
	a.pruned = now
	files, err := fs.ReadDir(a.store.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		info, err := f.Info()
		if err != nil || now.Sub(info.ModTime()) < artefactAge {
			continue
		}
		hex, ok := strings.CutSuffix(f.Name(), artefactSuffix)
		if ok && keep[digestPrefix+hex] {
			continue
		}
		errs = append(errs, a.store.Remove(f.Name()))
	}
	return errors.Join(errs...)
}

// file reads a file below the module directory; a name that leads out of it is refused.
func (a *artefacts) file(name string) (data []byte, err error) {
	err = a.inFiles(func(root *os.Root) error {
		data, err = source.ReadFile(root, filepath.Clean(name), maxArtefactBytes)
		return err
	})
	return data, err
}

// fileVersion names the state of a file below the module directory: it changes when the file does.
func (a *artefacts) fileVersion(name string) string {
	var info fs.FileInfo
	err := a.inFiles(func(root *os.Root) (err error) {
		info, err = root.Stat(filepath.Clean(name))
		return err
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().Format(time.RFC3339Nano))
}

func (a *artefacts) inFiles(do func(*os.Root) error) error {
	root, err := os.OpenRoot(a.filesDir)
	if err != nil {
		return fmt.Errorf("the server's module directory (--module-dir): %w", withoutCall(err))
	}
	defer func() { _ = root.Close() }() // nothing is written below it
	if err := do(root); err != nil {
		return fmt.Errorf("below the server's module directory %s (--module-dir): %w", a.filesDir, withoutCall(err))
	}
	return nil
}

// withoutCall leaves out of an error about a file which system call it is of.
func withoutCall(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

const (
	digestPrefix   = "sha256:"
	artefactSuffix = ".wasm"
)

func artefactName(digest string) (string, error) {
	if err := source.CheckDigest(digest); err != nil {
		return "", err
	}
	return strings.TrimPrefix(digest, digestPrefix) + artefactSuffix, nil
}
