package cacher

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
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

// TestExpiryForgotten: the ring forgets the events of a revision while a watcher that is slow looks at the first of them. Its
// client, which goes on behind what it has seen, must not miss the others.
func TestExpiryForgotten(t *testing.T) {
	for _, limit := range []batchLimit{ownBatch, {events: 2, bytes: 1 << 20}} {
		store := newFake()
		for _, name := range []string{"x", "y", "z"} {
			putPod(t, store, "a", name, "", "")
		}
		c := started(t, store, func(config *Config) { config.RingSize = 8 })
		reach := func() {
			t.Helper()
			if err := c.WaitUntil(t.Context(), store.rv); err != nil {
				t.Fatal(err)
			}
		}
		reach()
		from, looks := store.rv, 0
		opts := selecting(t, rvString(from), "", "")
		opts.Predicate.Label = looking{opts.Predicate.Label, func() {
			// At the put, then at each removal.
			if looks++; looks == 3 {
				for range 10 {
					putPod(t, store, "a", "busy", "", "")
				}
				reach()
			}
		}}
		w := mustWatch(t, c, testPrefix, opts).(*watcher)
		putPod(t, store, "a", "busy", "", "")
		store.expire(0)
		expired := store.rv
		reach()
		w.collect(limit)
		last := from
		for {
			events, err := w.Next(t.Context())
			if err != nil {
				break
			}
			last = events[len(events)-1].Row.ResourceVersion
		}
		if looks < 3 || last != expired-1 {
			t.Errorf("limit %v: after %d looks a client goes on behind %d, want %d", limit, looks, last, expired-1)
		}
	}
}

// looking selects everything, and tells when it is asked.
type looking struct {
	labels.Selector
	look func()
}

func (l looking) Empty() bool { return false }

func (l looking) Matches(labels.Labels) bool {
	l.look()
	return true
}
