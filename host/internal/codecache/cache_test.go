package codecache

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, dir string, bytes int64) *Cache {
	t.Helper()
	c, err := Open(dir, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// use looks an entry up, writes what the engine would have if it was not there,
// and keeps it.
func use(t *testing.T, c *Cache, key, text string) State {
	t.Helper()
	e, err := c.Entry(key)
	if err != nil {
		t.Error(err)
		return ""
	}
	file := filepath.Join(e.Dir, "engine", "code")
	if e.State == Hit {
		if got, err := os.ReadFile(file); err == nil && string(got) != text { // err: it was evicted
			t.Errorf("%s has %q, want %q", key, got, text)
		}
	} else {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	if err := e.Keep(); err != nil {
		t.Error(err)
	}
	return e.State
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		names = append(names, d.Name())
	}
	return names
}

func TestEntries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	c := open(t, dir, 1<<20)
	if s := use(t, c, "a", "code of a"); s != Miss {
		t.Errorf("at first: %s", s)
	}
	for _, c := range []*Cache{c, open(t, dir, 1<<20)} {
		if s := use(t, c, "a", "code of a"); s != Hit {
			t.Errorf("again: %s", s)
		}
	}
	e, err := c.Entry("b")
	if err != nil {
		t.Fatal(err)
	}
	e.Discard()
	if s := use(t, c, "b", "code of b"); s != Miss {
		t.Errorf("after it was discarded: %s", s)
	}
	if e, err = c.Entry("b"); err != nil || e.State != Hit {
		t.Fatal(e.State, err)
	}
	if err := e.Forget(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(t, dir), " "); got != "a" {
		t.Errorf("left are %s", got)
	}
}

func TestCorruption(t *testing.T) {
	code := func(dir string) string { return filepath.Join(dir, "a", "engine", "code") }
	tests := []struct {
		name   string
		damage func(dir string) error
	}{
		{"a bit", func(dir string) error { return os.WriteFile(code(dir), []byte("code of b"), 0o600) }},
		{"cut off", func(dir string) error { return os.Truncate(code(dir), 3) }},
		{"empty", func(dir string) error { return os.Truncate(code(dir), 0) }},
		{"removed", func(dir string) error { return os.Remove(code(dir)) }},
		{"no sums", func(dir string) error { return os.Remove(filepath.Join(dir, "a", sumsFile)) }},
		{"other sums", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a", sumsFile), []byte("0 0 engine/code\n"), 0o600)
		}},
		{"another file", func(dir string) error { return os.WriteFile(code(dir)+".tmp", nil, 0o600) }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir, 1<<20)
			use(t, c, "a", "code of a")
			if err := tc.damage(dir); err != nil {
				t.Fatal(err)
			}
			for _, want := range []State{Corrupt, Hit} {
				if s := use(t, c, "a", "code of a"); s != want {
					t.Errorf("%s, want %s", s, want)
				}
			}
			if got := names(t, dir); len(got) != 1 {
				t.Errorf("left are %v", got)
			}
		})
	}
}

// TestGrowth: the engine adds code for another processor to what was found.
func TestGrowth(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, 1<<20)
	use(t, c, "a", "code of a")
	e, err := c.Entry("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.Dir, "engine", "more"), []byte("code"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.Keep(); err != nil {
		t.Fatal(err)
	}
	if s := use(t, c, "a", "code of a"); s != Hit {
		t.Errorf("%s", s)
	}
}

func TestLeastRecentlyUsedGoes(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, 3_000)
	text := strings.Repeat("x", 900)
	now := time.Now()
	for i, key := range []string{"a", "b", "c"} {
		use(t, c, key, text)
		at := now.Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, key, sumsFile), at, at); err != nil {
			t.Fatal(err)
		}
	}
	stale, fresh := filepath.Join(dir, aside+"1"), filepath.Join(dir, aside+"2")
	for _, dir := range []string{stale, fresh} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(stale, now.Add(-2*asideKept), now.Add(-2*asideKept)); err != nil {
		t.Fatal(err)
	}
	if s := use(t, c, "a", text); s != Hit {
		t.Errorf("a: %s", s)
	}
	use(t, c, "d", text)
	if got := strings.Join(names(t, dir), " "); got != "a c d new-2" {
		t.Errorf("left are %s", got)
	}
	// What alone is too large is kept until something else is used.
	use(t, c, "e", strings.Repeat("x", 10_000))
	if got := strings.Join(names(t, dir), " "); got != "e new-2" {
		t.Errorf("left are %s", got)
	}
}

// TestHammer shares a directory that is too small between caches, as processes
// do, while it is being broken.
func TestHammer(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		c := open(t, dir, 2_000)
		all.Go(func() {
			for i := range 100 {
				key := fmt.Sprint("k", i%5)
				e, err := c.Entry(key)
				if err != nil {
					t.Error(err)
					return
				}
				if e.State != Hit {
					if err := os.WriteFile(filepath.Join(e.Dir, "code"), []byte(strings.Repeat(key, 400)), 0o600); err != nil {
						t.Error(err)
						return
					}
				} else if i%17 == 0 {
					_ = os.Truncate(filepath.Join(e.Dir, "code"), 5)
				} else if got, err := os.ReadFile(filepath.Join(e.Dir, "code")); err == nil && len(got) != 5 && string(got) != strings.Repeat(key, 400) {
					t.Errorf("%s has %.20s", key, got)
				}
				_ = e.Keep() // others remove it under our hands
			}
		})
	}
	all.Wait()
	if n := len(names(t, dir)); n > 4 {
		t.Errorf("%d entries are left", n)
	}
}
