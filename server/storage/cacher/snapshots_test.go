package cacher

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir.dev/weir/server/storage"
)

// keptAlone returns the bytes of the rows that states which are kept keep alive: the rows of now do not have them, and
// the ring does not as what an event replaced.
func keptAlone(c *Cacher) (bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := map[*element]bool{}
	c.rows.Scan(func(at item) bool {
		others[at.el] = true
		return true
	})
	for seq := c.ring.head; seq < c.ring.next; seq++ {
		e := c.ring.get(seq)
		others[e.prev] = true
	}
	for _, kept := range c.kept.kept {
		kept.rows.Scan(func(at item) bool {
			if !others[at.el] {
				others[at.el] = true
				bytes += at.el.size()
			}
			return true
		})
	}
	return bytes
}

// TestSnapshotCharges: what states are charged for their rows is what they keep alive, whatever is written, read and
// dropped.
func TestSnapshotCharges(t *testing.T) {
	tests := []struct {
		name string
		// drop drops a state of several.
		drop func(s *snapshots)
		// cuts: the cache is filled anew behind gaps.
		cuts bool
	}{
		{"the earliest goes first", func(s *snapshots) {
			earliest := s.kept[0].rv
			for _, kept := range s.kept {
				earliest = min(earliest, kept.rv)
			}
			s.dropBefore(earliest + 1)
		}, false},
		{"any goes", func(s *snapshots) { s.shed(max(s.bytes-1, 0)) }, false},
		{"with gaps", func(s *snapshots) { s.shed(max(s.bytes-1, 0)) }, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSnapshotCharges(t, tc.drop, tc.cuts) })
		})
	}
}

func testSnapshotCharges(t *testing.T, drop func(s *snapshots), cuts bool) {
	random := rand.New(rand.NewPCG(1, 2))
	store := newFake()
	budget := NewBudget(1 << 30)
	c := newTestCacher(t, store, func(config *Config) { config.RingSize, config.Budget = 16, budget })
	putPod(t, store, "a", "first", "", "")
	connect(t, c)
	page := selecting(t, "", "", "")
	page.Predicate.Limit = 1
	charged, cut := 0, 0
	for i := range 3000 {
		name := fmt.Sprint(random.IntN(50))
		switch at := random.IntN(100); {
		case len(c.kept.kept) > maxSnapshots-2: // else any is dropped
			drop(&c.kept)
		case at < 10:
			mustList(t, c, testPrefix, page)
		case at < 20: // a state that must be rebuilt, or that is kept
			rv := c.Progress() - min(uint64(random.IntN(30)), c.Progress()-1)
			c.snapshotAt(rv, &filter{})
		case at < 25 && len(c.kept.kept) > 1:
			drop(&c.kept)
		case at < 30:
			removePodIfThere(t, store, name)
		case at == 30 && cuts:
			store.do(func() { store.silent = true })
			for range 3 {
				putPod(t, store, "a", fmt.Sprint(random.IntN(50)), "", "silent")
			}
			removePodIfThere(t, store, name)
			store.compact()
			store.do(func() { store.silent = false; store.epoch++; store.epochErr = errGap })
			cut++
		default:
			putPod(t, store, "a", name, "", strings.Repeat("x", random.IntN(100)))
		}
		if err := c.WaitUntil(t.Context(), putPod(t, store, "b", "last", "", "").ResourceVersion); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var rows, cost int64
		for _, kept := range c.kept.kept {
			rows += kept.rowBytes
			cost += kept.cost
		}
		want := keptAlone(c)
		if rows != want || cost != c.kept.bytes {
			t.Fatalf("step %d: %d states are charged %d for rows, want %d, and %d of %d in all", i, len(c.kept.kept), rows, want, c.kept.bytes, cost)
		}
		if got, want := c.ring.bytes.Load()-c.kept.bytes, aloneIn(c); got != want {
			t.Fatalf("step %d: the ring is charged %d, keeps %d", i, got, want)
		}
		if want > 0 {
			charged++
		}
	}
	if charged < 1000 || cuts && cut == 0 {
		t.Errorf("states kept something alive %d times, %d cuts", charged, cut)
	}
	c.Stop()
	if budget.Held() != 0 || len(c.kept.kept) != 0 {
		t.Errorf("the budget has %d at the end, %d states are kept", budget.Held(), len(c.kept.kept))
	}
}

// TestSnapshotsBounded: who reads a page now and then of what is written to all the time does not make the cache keep
// more than it may. The pages of a state that is gone are read from the storage, at the same revision.
func TestSnapshotsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, size, objects = 1 << 20, 4 << 10, 500
		store := newFake()
		c := newTestCacher(t, store, func(config *Config) { config.RingBytes = bound })
		for i := range objects {
			putLarge(t, c, "a", fmt.Sprintf("%04d", i), size)
		}
		page := selecting(t, "", "", "")
		page.Predicate.Limit = 1
		type pages struct {
			token string
			rv    uint64
			last  storage.Row // the row of the key after the first
		}
		var begun []pages
		for i := range 40 {
			list := mustList(t, c, testPrefix, page)
			begun = append(begun, pages{list.Continue, list.ResourceVersion, mustGet(t, c, podKey("a", "0001"))})
			for j := range 100 {
				putLarge(t, c, "a", fmt.Sprintf("%04d", (100*i+j)%objects), size)
				if held := c.ring.bytes.Load(); held > bound+2*size {
					t.Fatalf("%d bytes are held, %d by %d states", held, c.kept.bytes, len(c.kept.kept))
				}
			}
			if alone := keptAlone(c); alone > bound/snapshotShare {
				t.Fatalf("%d bytes are held by %d states alone", alone, len(c.kept.kept))
			}
			time.Sleep(5 * time.Second)
		}
		if n := len(c.kept.kept); n == 0 || n > 10 {
			t.Errorf("%d states are kept", n)
		}
		lists := store.listsDone()
		for _, p := range begun {
			opts := page
			opts.Predicate.Continue = p.token
			list := mustList(t, c, testPrefix, opts)
			if list.ResourceVersion != p.rv || len(list.Rows) != 1 || !reflect.DeepEqual(list.Rows[0], p.last) {
				t.Errorf("page at revision %d: %v at %d, want %v", p.rv, suffixes(list.Rows), list.ResourceVersion, suffixes([]storage.Row{p.last}))
			}
		}
		if n := store.listsDone() - lists; n < 30 || n == len(begun) {
			t.Errorf("%d of %d pages were read from the storage", n, len(begun))
		}
		c.Stop()
	})
}

func mustGet(t testing.TB, c *Cacher, key string) storage.Row {
	t.Helper()
	row, err := c.Get(t.Context(), key, storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// A state of which the ring has forgotten what follows is not kept when a page is done: nobody knows what it would cost.
func TestSnapshotTooLate(t *testing.T) {
	c := started(t, newFake(), func(c *Config) { c.RingSize = 4 })
	for writes, want := range map[int]int{0: 1, 4: 1, 5: 0} {
		putLarge(t, c, "a", "x", 1)
		v := c.snapshot()
		for range writes {
			putLarge(t, c, "a", "x", 1)
		}
		c.kept.keep(v, time.Now(), 0)
		if n := len(c.kept.kept); n != want {
			t.Errorf("%d states are kept after %d writes, want %d", n, writes, want)
		}
		c.kept.clear()
	}
	v := c.snapshot()
	c.kept.keep(v, time.Now(), 0)
	for range 10 {
		putLarge(t, c, "a", "x", 1)
	}
	c.kept.keep(v, time.Now(), 0)
	if len(c.kept.kept) != 1 || c.kept.bytes == 0 {
		t.Errorf("%d states are kept, charged %d", len(c.kept.kept), c.kept.bytes)
	}
}
