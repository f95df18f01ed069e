package loader

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir.dev/weir/host"
)

func openArtefacts(t *testing.T) (a *artefacts, dir, files string) {
	t.Helper()
	base := t.TempDir()
	dir, files = filepath.Join(base, "artefacts"), filepath.Join(base, "modules")
	a, err := newArtefacts(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	return a, dir, files
}

func TestArtefactsAreKept(t *testing.T) {
	a, dir, _ := openArtefacts(t)
	data := []byte("bytes of a module")
	digest := host.Digest(data)
	if _, err := a.get(digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get of what is not there: %v", err)
	}
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			if err := a.put(digest, data); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	got, err := a.get(digest)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("get: %q, %v", got, err)
	}
	name := filepath.Join(dir, strings.TrimPrefix(digest, "sha256:")+".wasm")
	if err := os.WriteFile(name, []byte("bits of a module!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.get(digest); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("get of a damaged one: %v", err)
	}
	if err := a.put(digest, data); err != nil {
		t.Fatal(err)
	}
	if got, err := a.get(digest); err != nil || !bytes.Equal(got, data) {
		t.Errorf("get after it was mended: %q, %v", got, err)
	}
}

func TestArtefactsOfBadDigests(t *testing.T) {
	a, _, _ := openArtefacts(t)
	for _, digest := range []string{"", "sha256:", "sha256:../../etc/passwd", "md5:" + strings.Repeat("0", 64),
		"sha256:" + strings.Repeat("A", 64), "sha256:" + strings.Repeat("0", 63), "sha256:" + strings.Repeat("0", 63) + "/"} {
		if _, err := a.get(digest); err == nil || !strings.Contains(err.Error(), "is not sha256: and 64 hexadecimal digits") {
			t.Errorf("get(%q): %v", digest, err)
		}
		if err := a.put(digest, nil); err == nil {
			t.Errorf("put(%q) works", digest)
		}
	}
}

func TestArtefactsArePruned(t *testing.T) {
	a, dir, _ := openArtefacts(t)
	now := time.Now()
	digests := map[string]string{}
	for name, age := range map[string]time.Duration{"in force": 3 * time.Hour, "old": 2 * time.Hour, "fresh": time.Minute} {
		data := []byte(name)
		digests[name] = host.Digest(data)
		if err := a.put(digests[name], data); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, strings.TrimPrefix(digests[name], "sha256:")+".wasm")
		if err := os.Chtimes(file, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	part := filepath.Join(dir, "crashed.wasm.part")
	if err := os.WriteFile(part, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(part, now.Add(-2*time.Hour), now.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	keep := map[string]bool{digests["in force"]: true}
	if err := a.prune(keep, now); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"in force": true, "old": false, "fresh": true} {
		if _, err := a.get(digests[name]); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a crash left: %v", err)
	}
	// The next look comes later.
	if err := a.prune(nil, now.Add(prunePause-1)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.get(digests["in force"]); err != nil {
		t.Error(err)
	}
	// What is put again is fresh.
	if err := a.put(digests["in force"], []byte("in force")); err != nil {
		t.Fatal(err)
	}
	if err := a.prune(nil, now.Add(prunePause)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.get(digests["in force"]); err != nil {
		t.Error(err)
	}
}

func TestFilesOfModules(t *testing.T) {
	a, _, files := openArtefacts(t)
	if _, err := a.file("m.wasm"); err == nil || err.Error() != "the server's module directory (--module-dir): "+files+": no such file or directory" {
		t.Errorf("without a directory: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(files, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(filepath.Dir(files), "secret")
	for name, data := range map[string]string{outside: "secret", filepath.Join(files, "sub", "m.wasm"): "module"} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"inside": "sub/m.wasm", "outside": "../secret", "absolute": outside, "dangling": "absent"} {
		if err := os.Symlink(target, filepath.Join(files, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(files, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	large, err := os.Create(filepath.Join(files, "large"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(large.Truncate(maxArtefactBytes+1), large.Close()); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, want, err string }{
		{"sub/m.wasm", "module", ""},
		{"./sub/../sub/m.wasm", "module", ""},
		{"inside", "module", ""},
		{"outside", "", "escapes"},
		{"absolute", "", "escapes"},
		{"dangling", "", "no such file"},
		{"../secret", "", "escapes"},
		{"sub/../../secret", "", "escapes"},
		{outside, "", "escapes"},
		{"sub", "", "not a regular file"},
		{"pipe", "", "not a regular file"},
		{"large", "", fmt.Sprintf("too large: more than %d bytes", maxArtefactBytes)},
		{"absent", "", "no such file"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := a.file(tc.name)
			if tc.err == "" && (err != nil || string(got) != tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || len(got) > 0) {
				t.Errorf("got %d bytes, %v, want %q", len(got), err, tc.err)
			}
		})
	}
	before := a.fileVersion("sub/m.wasm")
	if a.fileVersion("sub/m.wasm") != before {
		t.Error("the version changes and the file does not")
	}
	if err := os.WriteFile(filepath.Join(files, "sub", "m.wasm"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a.fileVersion("sub/m.wasm") == before {
		t.Error("the file changes and the version does not")
	}
	if v := a.fileVersion("absent"); !strings.Contains(v, "no such file") {
		t.Errorf("version of what is not there: %q", v)
	}
}
