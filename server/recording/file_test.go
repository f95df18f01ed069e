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
