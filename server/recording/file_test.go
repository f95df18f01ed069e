package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileRotates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	f, err := open(name, 10, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if err := f.write([]byte(fmt.Sprintf("a%03d\n", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{name: "a008\n", name + ".1": "a006\na007\n", name + ".2": "a004\na005\n"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", file, got, err, want)
		}
	}
	if _, err := os.Stat(name + ".3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a third backup is kept: %v", err)
	}
	// It goes on where it was.
	if f, err = open(name, 10, 2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.write([]byte("b\n")), f.close()); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "a008\nb\n" {
		t.Errorf("it has %q", got)
	}
}

func TestFileWithoutBackups(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	f, err := open(name, 4, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.write([]byte("a\n")), f.write([]byte("bcd\n")), f.close()); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "bcd\n" {
		t.Errorf("it has %q", got)
	}
	if _, err := os.Stat(name + ".1"); err == nil {
		t.Error("a backup is kept")
	}
}

// TestFileThatIsLost: a directory that is gone is an error of each line, and no more than that.
func TestFileThatIsLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := open(filepath.Join(dir, "log"), 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.write([]byte("abc\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.write([]byte("def\n")); err == nil {
		t.Error("no error when the file cannot be begun anew")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.write([]byte("ghi\n")), f.close()); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "log")); !strings.Contains(string(got), "ghi") {
		t.Errorf("it has %q", got)
	}
	if _, err := open(filepath.Join(dir, "none", "log"), 4, 1); err == nil {
		t.Error("no error of a directory that does not exist")
	}
}

// TestFileAfterACrash: what follows a line that was cut off is on a line of its own, and a file that others may read is
// theirs no more.
func TestFileAfterACrash(t *testing.T) {
	tests := []struct{ name, before, want string }{
		{"new", "", "b\n"},
		{"whole", "a\n", "a\nb\n"},
		{"torn", "a\n{\"ki", "a\n{\"ki\nb\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(name, []byte(tc.before), 0o644); err != nil { //nolint:gosec // the mode is what is tested
				t.Fatal(err)
			}
			f, err := open(name, 100, 1)
			if err != nil {
				t.Fatal(err)
			}
			if f.size != int64(len(tc.want)-len("b\n")) {
				t.Errorf("size %d", f.size)
			}
			if err := errors.Join(f.write([]byte("b\n")), f.close()); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(name); string(got) != tc.want {
				t.Errorf("it has %q, want %q", got, tc.want)
			}
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != fileMode {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestFileCountsLines: each line of a flush that fails is lost, and no other.
func TestFileCountsLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	f, err := open(name, 1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.write([]byte("a\n")), f.flush()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := f.write([]byte("bc\n")); err != nil {
			t.Fatal(err)
		}
	}
	_ = f.f.Close() // the disk fails
	if err := f.flush(); err == nil {
		t.Error("no error of a flush that fails")
	}
	if err := errors.Join(f.write([]byte("d\n")), f.close()); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != (tally{written: 2, bytes: 4, lost: 3}) || f.take() != (tally{}) {
		t.Errorf("got %+v", got)
	}
	if got, _ := os.ReadFile(name); string(got) != "a\nd\n" {
		t.Errorf("it has %q", got)
	}
}
