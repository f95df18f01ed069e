package cacher

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir.dev/weir/server/storage"
)

// TestSizes compares the sizes that memory is counted by with those that the compiler gives, in the allocator's steps.
func TestSizes(t *testing.T) {
	for name, tc := range map[string]struct{ got, want int }{
		"event":   {eventSize, int(unsafe.Sizeof(event{})+15) &^ 15},
		"element": {elementSize, int(unsafe.Sizeof(element{})+15) &^ 15},
		"pair":    {pairSize, int(unsafe.Sizeof(pair{}))},
	} {
		if tc.got != tc.want {
			t.Errorf("an %s has %d bytes, counted as %d", name, tc.want, tc.got)
		}
	}
}

// putLarge writes a pod of some bytes, and waits until the cache has it.
func putLarge(t testing.TB, c *Cacher, namespace, name string, size int) storage.Row {
	t.Helper()
	row := putPod(t, c, namespace, name, "", strings.Repeat("x", size))
	if err := c.WaitUntil(t.Context(), row.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	return row
}

// TestRingBytes: a ring forgets its oldest events when they keep more in memory than they may, and what is forgotten
// ends slow watchers and is read from the storage by those that come back.
func TestRingBytes(t *testing.T) {
	const bound, size, objects, writes = 1 << 20, 4 << 10, 10, 1000
	reg := prometheus.NewRegistry()
	store := newFake()
	c := newTestCacher(t, store, func(config *Config) { config.RingBytes, config.Metrics = bound, NewMetrics(reg) })
	slow := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
	quick := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
	var last uint64
	for i := range writes {
		last = putLarge(t, c, "a", fmt.Sprint(i%objects), size).ResourceVersion
		if got := take(t, quick, 1); !strings.HasSuffix(got[0], "@"+rvString(last)) {
			t.Fatalf("got %q of revision %d", got, last)
		}
		if held := c.ring.bytes.Load(); held > bound {
			t.Fatalf("%d bytes after %d writes", held, i+1)
		}
	}
	events := int(c.ring.next - c.ring.head)
	if events < bound/(size+1000) || events > bound/size {
		t.Errorf("%d events are remembered", events)
	}
	metrics := c.config.Metrics
	for end := time.Now().Add(time.Minute); testutil.ToFloat64(metrics.ringBytes) != float64(c.ring.bytes.Load()) && time.Now().Before(end); {
		runtime.Gosched() // it is told a moment after the last event
	}
	if held := c.ring.bytes.Load(); testutil.ToFloat64(metrics.ringBytes) != float64(held) || testutil.ToFloat64(metrics.ringLimit) != bound {
		t.Errorf("metrics %v and %v, held %d", testutil.ToFloat64(metrics.ringBytes), testutil.ToFloat64(metrics.ringLimit), held)
	}
	if err := wantEnd(t, slow); !errors.Is(err, io.EOF) { // the storage has what it has missed
		t.Errorf("slow watcher: %v", err)
	}
	// Both sides of the floor: the storage has what the ring has not.
	for _, rv := range []uint64{2, c.ring.floor.Load() - 1, c.ring.floor.Load()} {
		w := mustWatch(t, c, testPrefix, selecting(t, rvString(rv), "", ""))
		for next := rv + 1; next < min(rv+50, last); next++ {
			if got := take(t, &oneByOne{Watcher: w}, 1); !strings.HasSuffix(got[0], "@"+rvString(next)) {
				t.Fatalf("from %d: got %q, want %d", rv, got, next)
			}
			w = mustWatch(t, c, testPrefix, selecting(t, rvString(next), "", ""))
		}
	}
	floor := c.ring.floor.Load()
	store.compact()
	if err := wantEnd(t, mustWatch(t, c, testPrefix, selecting(t, rvString(floor-1), "", ""))); storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("resume before the ring: %v", err)
	}
	wantEvents(t, &oneByOne{Watcher: mustWatch(t, c, testPrefix, selecting(t, rvString(last-1), "", ""))}, fmt.Sprintf("MODIFIED a/%d@%d", (writes-1)%objects, last))
}

// TestRingKeepsSome: events that are too large for the bound are remembered as far as upstream would at least.
func TestRingKeepsSome(t *testing.T) {
	c := newTestCacher(t, newFake(), func(config *Config) { config.RingBytes = 1 })
	for i := range 3 * minEvents {
		putLarge(t, c, "a", fmt.Sprint(i%3), 100)
	}
	if got := c.ring.next - c.ring.head; got != minEvents {
		t.Errorf("%d events, want %d", got, minEvents)
	}
	if got := len(c.ring.slots.Load().at); got > 256 {
		t.Errorf("room for %d events", got)
	}
}

// aloneIn returns what a ring keeps in memory that the rows do not, object by object.
func aloneIn(c *Cacher) (bytes int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	seen := map[*element]bool{}
	c.rows.Scan(func(at item) bool { seen[at.el] = true; return true })
	for seq := c.ring.head; seq < c.ring.next; seq++ {
		e := c.ring.get(seq)
		bytes += eventSize
		for _, el := range []*element{e.prev, e.cur} {
			if el != nil && !seen[el] {
				seen[el] = true
				bytes += el.size()
			}
		}
		if row := e.left.Load(); row != nil {
			bytes += int64(row.Value.Len())
		}
	}
	return bytes
}

// TestRingCharges: what a ring is charged is what it keeps in memory, whatever happens.
func TestRingCharges(t *testing.T) {
	synctest.Test(t, testRingCharges) // so that the pauses after errors take no time
}

func testRingCharges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	store := newFake()
	budget := NewBudget(1 << 30)
	c := newTestCacher(t, store, func(config *Config) { config.RingBytes, config.Budget = 100<<10, budget })
	selected := mustWatch(t, c, testPrefix, selecting(t, "1", "app=xx", ""))
	cuts := 0
	for range 3000 {
		name := fmt.Sprint(random.IntN(20))
		switch at := random.IntN(100); {
		case at == 0:
			// A time that the storage has forgotten: rows are replaced.
			store.do(func() { store.silent = true })
			for range 3 {
				putPod(t, store, "a", fmt.Sprint(random.IntN(20)), "", "silent")
			}
			removePodIfThere(t, store, name)
			store.compact()
			store.do(func() { store.silent = false; store.epoch++; store.epochErr = errGap })
			cuts++
		case at < 20:
			removePodIfThere(t, store, name)
		default:
			putPod(t, store, "a", name, "", strings.Repeat("x", random.IntN(4)))
		}
		row := putPod(t, store, "b", "last", "", "")
		if err := c.WaitUntil(t.Context(), row.ResourceVersion); err != nil {
			t.Fatal(err)
		}
		if random.IntN(3) == 0 { // reads what left the selection
			selected = readAll(t, c, selected)
		}
		if got, want := c.ring.bytes.Load(), aloneIn(c); got != want {
			t.Fatalf("charged %d, keeps %d", got, want)
		}
		if got, want := budget.Held(), c.ring.bytes.Load(); got != want {
			t.Fatalf("the budget has %d, the ring %d", got, want)
		}
	}
	if cuts == 0 || c.ring.head == 1 {
		t.Error("nothing was cut or forgotten")
	}
	c.Stop()
	if budget.Held() != 0 {
		t.Errorf("the budget has %d at the end", budget.Held())
	}
}

func removePodIfThere(t testing.TB, s storage.Interface, name string) {
	t.Helper()
	if _, err := s.Delete(t.Context(), podKey("a", name), storage.DeleteOptions{}); err != nil && storage.CodeOf(err) != storage.ErrCodeKeyNotFound {
		t.Fatal(err)
	}
}

// readAll reads what there is, and returns the watcher or, if it has ended, another.
func readAll(t testing.TB, c *Cacher, from storage.Watcher) storage.Watcher {
	t.Helper()
	w := from.(*watcher)
	for w.next < c.ring.tail.Load() && w.open == nil {
		w.release()
		if w.collect(ownBatch); w.err != nil {
			break
		}
	}
	if w.err == nil && w.open == nil {
		return w
	}
	w.Stop()
	return mustWatch(t, c, testPrefix, selecting(t, rvString(c.Progress()), "app=xx", ""))
}

// TestBudget: cachers share memory. The largest gives first, one that nothing happens to among them.
func TestBudget(t *testing.T) {
	const bound, size = 1 << 20, 4 << 10
	budget := NewBudget(bound)
	var cachers []*Cacher
	for range 3 {
		c := newTestCacher(t, newFake(), func(config *Config) { config.Budget = budget })
		putLarge(t, c, "a", "first", 10)
		cachers = append(cachers, c)
	}
	share := func() (shares []int64) {
		for _, c := range cachers {
			shares = append(shares, c.ring.bytes.Load()*100/bound)
		}
		return shares
	}
	fill := func(c *Cacher, n int) {
		t.Helper()
		for range n {
			putLarge(t, c, "a", "x", size)
			// It is settled a moment after the write is seen.
			for deadline := time.Now().Add(time.Minute); budget.Held() > bound; {
				if time.Now().After(deadline) {
					t.Fatalf("%d bytes are held", budget.Held())
				}
				runtime.Gosched()
			}
		}
	}
	fill(cachers[0], 1000)
	if got := share(); got[0] < 95 {
		t.Errorf("one alone has %v %%", got)
	}
	fill(cachers[1], 1000)
	if got := share(); got[0] < 48 || got[0] > 52 || got[1] < 45 {
		t.Errorf("two have %v %%", got)
	}
	cachers[1].Stop()
	if got := share(); got[1] != 0 || !reflect.DeepEqual(budget.Held(), cachers[0].ring.bytes.Load()+cachers[2].ring.bytes.Load()) {
		t.Errorf("after the end of one: %v %%, %d held", got, budget.Held())
	}
	fill(cachers[2], 100)
	if got := share(); got[0] < 48 || got[2] < 35 {
		t.Errorf("the third has %v %%", got)
	}
}
