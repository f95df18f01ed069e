package cacher

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"weir.dev/weir/server/storage"
)

// expire removes all rows at one revision, as a lease that they share does.
func (f *fake) expire(before int) {
	f.do(func() {
		for i := range before {
			f.putLocked(podKey("a", "busy"), pod("a", "busy", fmt.Sprint(i), ""))
		}
		f.rv++
		for key, row := range f.rows {
			if key == podKey("a", "busy") {
				continue
			}
			delete(f.rows, key)
			prev := row
			row.ResourceVersion = f.rv
			value, _ := storage.JSONCodec{}.Decode(row.Value.Bytes(), f.rv)
			row.Value = storage.NewText(value)
			f.log = append(f.log, storage.Event{Type: storage.Deleted, Row: row, Prev: prev})
		}
		f.wakeLocked()
	})
}

// TestExpiry: many rows vanish at one revision, which the events before have brought near the bound of what is
// taken in at once. The stream goes on, and no watcher gets a part of the revision.
func TestExpiry(t *testing.T) {
	const rows = 600
	store := newFake()
	for i := range rows {
		putPod(t, store, "a", fmt.Sprintf("p%d", i), "", "")
	}
	c := started(t, store, nil)
	if err := c.WaitUntil(t.Context(), store.rv); err != nil {
		t.Fatal(err)
	}
	lists := store.listsDone()
	w := mustWatch(t, c, testPrefix, selecting(t, rvString(store.rv), "", ""))
	store.expire(maxEvents - rows/2)
	removed := 0
	for removed < rows {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d: %v", removed, err)
		}
		for _, e := range events {
			if e.Type == storage.Deleted {
				removed++
			}
		}
		if removed > 0 && removed < rows {
			t.Fatalf("%d of %d events of one revision", removed, rows)
		}
	}
	if n := store.listsDone(); n != lists {
		t.Errorf("%d more lists", n-lists)
	}
}

// TestSnapshotsAge: a state kept for pages that nobody asks for is dropped, also where nobody lists any more.
func TestSnapshotsAge(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	store := newFake()
	for i := range 3 {
		putPod(t, store, "a", fmt.Sprint(i), "", "")
	}
	c := started(t, store, func(config *Config) { config.Clock = clock })
	opts := selecting(t, "", "", "")
	opts.Predicate.Limit = 1
	mustList(t, c, testPrefix, opts)
	kept := func() int {
		c.kept.mu.Lock()
		defer c.kept.mu.Unlock()
		return len(c.kept.kept)
	}
	change := func() {
		if err := c.WaitUntil(t.Context(), putPod(t, store, "a", "0", "", "").ResourceVersion); err != nil {
			t.Fatal(err)
		}
	}
	clock.Step(snapshotAge)
	change()
	if n := kept(); n != 1 {
		t.Errorf("%d states are kept, want 1", n)
	}
	clock.Step(time.Second)
	change()
	if n := kept(); n != 0 {
		t.Errorf("%d states are kept, want none", n)
	}
}
