package snapshot

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

const page = 64 << 10

func TestRestore(t *testing.T) {
	for _, tc := range []struct {
		name    string
		mode    Mode
		watched bool
	}{
		{"copy", Copy, false},
		{"discard", Discard, false},
		{"sticky", Sticky, false},
		{"sticky and watched", Sticky, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mode := tc.mode
			e := NewEngine(mode)
			defer e.Close()
			if !tc.watched {
				e.sys.unwatch()
			}
			want := bytes.Repeat([]byte("weir"), 5*page/4)
			img, err := e.Capture(want)
			if err != nil {
				t.Fatal(err)
			}
			defer img.Close()
			if img.Mode() != min(mode, e.sys.best()) {
				t.Errorf("mode %v", img.Mode())
			}
			const limit = 16 * page
			mem, err := e.NewMemory(limit)
			if err != nil {
				t.Fatal(err)
			}
			defer mem.Free()
			mem.Reallocate(2 * page)
			if mem.Attach(img) == nil {
				t.Error("attached to an image of another size")
			}
			buf := mem.Reallocate(5 * page)
			if err := mem.Attach(img); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(buf, want) {
				t.Fatal("not the image")
			}
			rnd := rand.New(rand.NewPCG(1, 2))
			copies := 0
			for round := range 9000 {
				// Reads, sparse writes, sometimes all of it, sometimes growth.
				_ = buf[rnd.IntN(len(buf))]
				for range rnd.IntN(50) {
					buf[rnd.IntN(page/2)] ^= 0xff
				}
				if round%500 == 0 {
					buf[rnd.IntN(len(buf))] ^= 0xff
				}
				if round == 8000 {
					clear(buf)
				}
				if round < 30 && round%3 == 0 || round%3000 == 2999 {
					buf = mem.Reallocate(uint64(6+rnd.IntN(10)) * page)
					if buf == nil {
						t.Fatal("does not grow")
					}
					if bytes.ContainsFunc(buf[5*page:], func(r rune) bool { return r != 0 }) {
						t.Fatal("new memory is not zero")
					}
					buf[len(buf)-1], buf[5*page] = 1, 1
				}
				moved, err := mem.Restore()
				if err != nil {
					t.Fatal(err)
				}
				if moved {
					was := &buf[0]
					if buf = mem.Reallocate(uint64(len(buf)) + page); &buf[0] != was {
						copies++
					}
				}
				if !bytes.Equal(buf, want) {
					t.Fatalf("round %d: not restored", round)
				}
			}
			if mem.Reallocate(limit+page) != nil {
				t.Error("grew above its limit")
			}
			if mode == Sticky && e.sys.best() == Sticky && copies < 500 {
				t.Errorf("moved to another copy %d times", copies)
			}
		})
	}
}

func TestImagesAreApart(t *testing.T) {
	e := NewEngine(Auto)
	defer e.Close()
	img, err := e.Capture(bytes.Repeat([]byte{1}, 4*page))
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	var mems [2]Memory
	var bufs [2][]byte
	for i := range mems {
		if mems[i], err = e.NewMemory(8 * page); err != nil {
			t.Fatal(err)
		}
		defer mems[i].Free()
		bufs[i] = mems[i].Reallocate(4 * page)
		if err := mems[i].Attach(img); err != nil {
			t.Fatal(err)
		}
	}
	bufs[0][100] = 9
	if bufs[1][100] != 1 || img.Bytes()[100] != 1 {
		t.Error("a write of one memory is seen elsewhere")
	}
}

func TestHeapMemory(t *testing.T) {
	mem := NewHeapMemory(4 * page)
	buf := mem.Reallocate(page)
	buf[0] = 1
	img := &Image{bytes: bytes.Clone(buf), mode: Copy, contents: spans(buf)}
	if err := mem.Attach(img); err != nil {
		t.Fatal(err)
	}
	buf = mem.Reallocate(3 * page)
	if buf[0] != 1 || len(buf) != 3*page {
		t.Error("growth lost something")
	}
	buf[2*page], buf[0] = 5, 5
	moved, err := mem.Restore()
	if err != nil || !moved {
		t.Errorf("restored: %v, moved: %v", err, moved)
	}
	if buf = mem.Reallocate(4 * page); len(buf) != page || buf[0] != 1 {
		t.Errorf("restored: %d bytes", len(buf))
	}
	if buf = mem.Reallocate(3 * page); buf[2*page] != 0 {
		t.Error("new memory is not zero")
	}
	if mem.Reallocate(5*page) != nil {
		t.Error("grew above its limit")
	}
}

func TestModeFor(t *testing.T) {
	tests := []struct {
		mode Mode
		size int
		best Mode
		want Mode
	}{
		{Auto, page, Sticky, Sticky},
		{Auto, 3 << 20, Discard, Copy},
		{Auto, 30 << 20, Discard, Discard},
		{Auto, 30 << 20, Copy, Copy},
		{Sticky, 10, Sticky, Sticky},
		{Sticky, 10, Copy, Copy},
	}
	for _, tc := range tests {
		if got := modeFor(tc.mode, tc.best, tc.size); got != tc.want {
			t.Errorf("modeFor(%v, %v, %d) = %v, want %v", tc.mode, tc.best, tc.size, got, tc.want)
		}
	}
}

func BenchmarkRestore(b *testing.B) {
	for _, mode := range []Mode{Copy, Discard, Sticky} {
		b.Run(mode.String(), func(b *testing.B) {
			e := NewEngine(mode)
			defer e.Close()
			img, err := e.Capture(make([]byte, 52*page))
			if err != nil {
				b.Fatal(err)
			}
			defer img.Close()
			mem, err := e.NewMemory(64 * page)
			if err != nil {
				b.Fatal(err)
			}
			defer mem.Free()
			buf := mem.Reallocate(52 * page)
			if err := mem.Attach(img); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for i := range 30 {
					buf[i*100_000] = 1
				}
				moved, err := mem.Restore()
				if err != nil {
					b.Fatal(err)
				}
				if moved {
					buf = mem.Reallocate(0)
				}
			}
		})
	}
}
