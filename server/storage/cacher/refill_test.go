package cacher

import (
	"bytes"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"weir.dev/weir/server/storage"
)

// TestGap: the watch of the storage breaks, and what happened meanwhile is compacted.
func TestGap(t *testing.T) {
	tests := []struct {
		name string
		// missed happens at revision 5 and after, unseen by the cache.
		missed func(t *testing.T, store *fake)
		// known are the events that watchers get; nil when they end.
		known []string
	}{
		{name: "nothing", missed: func(*testing.T, *fake) {}, known: []string{}},
		{name: "one write", missed: func(t *testing.T, store *fake) {
			putPod(t, store, "a", "x", "n", "")
		}, known: []string{"MODIFIED a/x@5"}},
		{name: "writes of different objects", missed: func(t *testing.T, store *fake) {
			putPod(t, store, "a", "z", "n", "")
			putPod(t, store, "a", "new", "n", "")
			putPod(t, store, "a", "x", "n", "")
		}, known: []string{"MODIFIED a/z@5", "ADDED a/new@6", "MODIFIED a/x@7"}},
		{name: "one deletion among writes", missed: func(t *testing.T, store *fake) {
			putPod(t, store, "a", "z", "n", "")
			removePod(t, store, "a", "x")
			putPod(t, store, "a", "new", "n", "")
		}, known: []string{"MODIFIED a/z@5", "DELETED a/x@6", "ADDED a/new@7"}},
		{name: "one deletion", missed: func(t *testing.T, store *fake) {
			removePod(t, store, "a", "x")
		}, known: []string{"DELETED a/x@5"}},
		{name: "two deletions", missed: func(t *testing.T, store *fake) {
			removePod(t, store, "a", "x")
			removePod(t, store, "a", "y")
		}},
		{name: "two writes of an object", missed: func(t *testing.T, store *fake) {
			putPod(t, store, "a", "x", "n", "")
			putPod(t, store, "a", "x", "m", "")
		}},
		{name: "deleted and made again", missed: func(t *testing.T, store *fake) {
			removePod(t, store, "a", "x")
			putPod(t, store, "a", "x", "n", "")
		}},
		{name: "expired together and one made again", missed: func(t *testing.T, store *fake) {
			removePod(t, store, "a", "x")
			store.do(func() { store.rv-- }) // one lease, one revision
			removePod(t, store, "a", "y")
			again := bytes.Replace(pod("a", "x", "", ""), []byte(`"namespace":"a"}`), []byte(`"namespace":"a","uid":"2"}`), 1)
			if _, err := store.Create(t.Context(), podKey("a", "x"), again, 0); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "made and deleted", missed: func(t *testing.T, store *fake) {
			putPod(t, store, "a", "new", "n", "")
			removePod(t, store, "a", "new")
		}},
		{name: "a write and other resources", missed: func(t *testing.T, store *fake) {
			putPod(t, store, "a", "x", "n", "")
			store.skip(1)
		}},
		{name: "a deletion and other resources", missed: func(t *testing.T, store *fake) {
			removePod(t, store, "a", "x")
			store.skip(1)
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			store := newFake()
			putPod(t, store, "a", "x", "", "")
			putPod(t, store, "a", "y", "", "")
			putPod(t, store, "a", "z", "", "")
			c := started(t, store, nil)
			early := mustWatch(t, c, testPrefix, selecting(t, "4", "", ""))
			store.do(func() { store.silent = true })
			tc.missed(t, store)
			store.do(func() {
				store.compacted = store.rv
				store.silent = false
				store.epoch++
				store.epochErr = &storage.Error{Code: storage.ErrCodeExpired}
			})
			if err := c.WaitUntil(t.Context(), store.rv); err != nil {
				t.Fatal(err)
			}
			for store.listsDone() < 2 || !c.fresh() {
				runtime.Gosched()
			}
			next := putPod(t, c, "a", "next", "", "")
			if tc.known != nil {
				wantEvents(t, early, append(tc.known, describe(storage.Event{Type: storage.Added, Row: next}))...)
			} else {
				if events, err := early.Next(t.Context()); storage.CodeOf(err) != storage.ErrCodeExpired {
					t.Errorf("got %v, %v", events, err)
				}
				late := mustWatch(t, c, testPrefix, selecting(t, "4", "", ""))
				if err := wantEnd(t, late); storage.CodeOf(err) != storage.ErrCodeExpired {
					t.Errorf("watch from before: %v", err)
				}
				wantEvents(t, mustWatch(t, c, testPrefix, selecting(t, rvString(next.ResourceVersion-1), "", "")),
					describe(storage.Event{Type: storage.Added, Row: next}))
			}
			if err := c.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func (f *fake) listsDone() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

// TestResume: a watch that breaks is resumed, and nothing is listed.
func TestResume(t *testing.T) {
	store := newFake()
	c := started(t, store, nil)
	w := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
	for _, err := range []error{io.EOF, &storage.Error{Code: storage.ErrCodeUnreachable}} {
		store.kill(err)
		putPod(t, store, "a", "x", "", "")
	}
	wantEvents(t, &oneByOne{Watcher: w}, "ADDED a/x@2", "MODIFIED a/x@3")
	if n := store.listsDone(); n != 1 {
		t.Errorf("%d lists", n)
	}
}

// TestRestoredStorage: the storage comes back with an earlier state.
func TestRestoredStorage(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	c := started(t, store, nil)
	putPod(t, c, "a", "x", "n", "")
	last := putPod(t, c, "a", "y", "n", "")
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	w := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
	wantEvents(t, &oneByOne{Watcher: w}, "MODIFIED a/x@3", "ADDED a/y@4")
	store.do(func() {
		store.rv = 2
		store.rows = map[string]storage.Row{podKey("a", "x"): store.log[0].Row}
		store.log = store.log[:1:1]
	})
	want := []string{"a/x@2"}
	if list := mustList(t, c, testPrefix, selecting(t, "", "", "")); !reflect.DeepEqual(suffixes(list.Rows), want) {
		t.Errorf("list %v", suffixes(list.Rows))
	}
	if err := wantEnd(t, w); storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("watch: %v", err)
	}
	if list := mustList(t, c, testPrefix, selecting(t, "0", "", "")); !reflect.DeepEqual(suffixes(list.Rows), want) || c.Progress() != 2 {
		t.Errorf("cached list %v at %d", suffixes(list.Rows), c.Progress())
	}
}

// TestRestoredStorageWritesAgain: after an earlier state is restored, revisions that the cache has seen are given to other
// writes.
func TestRestoredStorageWritesAgain(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	c := started(t, store, nil)
	putPod(t, c, "a", "x", "lost", "")
	last := putPod(t, c, "a", "y", "lost", "")
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	store.do(func() {
		store.rv = 2
		store.rows = map[string]storage.Row{podKey("a", "x"): store.log[0].Row}
		store.log = store.log[:1:1]
	})
	w := mustWatch(t, c, testPrefix, selecting(t, storage.FormatResourceVersion(last.ResourceVersion), "", ""))
	want := putPod(t, store, "a", "x", "new", "") // with the revision of the lost one
	mustList(t, c, testPrefix, selecting(t, "", "", ""))
	if err := wantEnd(t, w); storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("watch: %v", err)
	}
	list := mustList(t, c, testPrefix, selecting(t, "0", "", ""))
	if len(list.Rows) != 1 || list.Rows[0].Value.String() != want.Value.String() {
		t.Errorf("cached list %v, want %s", suffixes(list.Rows), want.Value)
	}
}

// TestCorruptObject: an object that cannot be read ends watches and sends reads to the
// storage until it is gone.
func TestCorruptObject(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	c := started(t, store, nil)
	w := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
	corrupt := &storage.Error{Code: storage.ErrCodeCorruptObj, Key: podKey("a", "x")}
	store.do(func() { store.listErr, store.epochErr = corrupt, corrupt; store.epoch++ })
	if err := wantEnd(t, w); storage.CodeOf(err) != storage.ErrCodeCorruptObj {
		t.Errorf("watch: %v", err)
	}
	opts := selecting(t, "", "", "")
	opts.Predicate.Limit = 10
	if _, err := c.GetList(t.Context(), testPrefix, opts); storage.CodeOf(err) != storage.ErrCodeCorruptObj {
		t.Errorf("list: %v", err)
	}
	store.do(func() { store.listErr = nil })
	removePod(t, c, "a", "x")
	if list := mustList(t, c, testPrefix, selecting(t, "", "", "")); len(list.Rows) != 0 {
		t.Errorf("list %v", suffixes(list.Rows))
	}
}

// TestCorruptElsewhere: an object that cannot be read ends the watches of others cleanly; those that follow are of the storage,
// and one of its own key is told of no other.
func TestCorruptElsewhere(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	putPod(t, store, "b", "x", "", "")
	c := started(t, store, nil)
	w := mustWatch(t, c, testPrefix+"b/", selecting(t, "3", "", ""))
	putPod(t, c, "b", "y", "", "")
	wantEvents(t, w, "ADDED b/y@4")
	bad := []*storage.Error{{Code: storage.ErrCodeCorruptObj, Key: podKey("a", "x")}, {Code: storage.ErrCodeCorruptObj, Key: podKey("c", "x")}}
	store.do(func() { store.listErr, store.epochErr = storage.CorruptList(bad, nil), bad[0]; store.epoch++ })
	if err := wantEnd(t, w); err != io.EOF {
		t.Errorf("watch of another: %v", err)
	}
	for c.trouble.Load() == nil {
		runtime.Gosched()
	}
	next := mustWatch(t, c, testPrefix+"b/", selecting(t, "3", "", ""))
	defer next.Stop()
	wantEvents(t, next, "ADDED b/y@4")
	err := wantEnd(t, mustWatch(t, c, testPrefix+"a/", selecting(t, "2", "", "")))
	if storage.CodeOf(err) != storage.ErrCodeCorruptObj || !strings.Contains(err.Error(), podKey("a", "x")) || strings.Contains(err.Error(), podKey("c", "x")) {
		t.Errorf("watch of its key: %v", err)
	}
}

// While an object cannot be read, others are watched at the storage by so many as read the past from there. More are to come
// again, and do when one has left.
func TestCorruptOfManyWatches(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	putPod(t, store, "b", "x", "", "")
	c := started(t, store, nil)
	bad := []*storage.Error{{Code: storage.ErrCodeCorruptObj, Key: podKey("a", "x")}}
	store.do(func() {
		store.listErr, store.epochErr, store.getErr = storage.CorruptList(bad, nil), bad[0], map[string]error{bad[0].Key: bad[0]}
		store.epoch++
	})
	for c.trouble.Load() == nil {
		runtime.Gosched()
	}
	opts := selecting(t, "3", "", "")
	var all []storage.Watcher
	for range maxPast {
		all = append(all, mustWatch(t, c, testPrefix+"b/", opts))
	}
	for range 3 {
		if _, err := c.Watch(t.Context(), testPrefix+"b/", opts); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("one more: %v", err)
		}
	}
	for range 2 { // twice is once
		all[0].Stop()
	}
	all[0] = mustWatch(t, c, testPrefix+"b/", opts)
	if _, err := c.Watch(t.Context(), testPrefix+"b/", opts); storage.CodeOf(err) != storage.ErrCodeNotReady {
		t.Errorf("one more, in whose place another has come: %v", err)
	}
	for _, w := range all {
		w.Stop()
	}
	if n := c.direct.Load(); n != 0 {
		t.Errorf("%d watches of the storage, want none", n)
	}
}

// TestPast: a cache that has just started gives the events from before its start.
func TestPast(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	putPod(t, store, "b", "x", "", "")
	putPod(t, store, "a", "x", "n", "")
	c := started(t, store, nil)
	all := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
	wantEvents(t, &oneByOne{Watcher: all}, "ADDED b/x@3", "MODIFIED a/x@4")
	if all.(*watcher).past != nil {
		t.Error("the watcher still reads from the storage")
	}
	store.skip(1)
	quiet := mustWatch(t, c, testPrefix+"none/", selecting(t, "2", "", ""))
	got := make(chan []string)
	go func() { got <- takeBeside(t, quiet, 1) }()
	for !quiet.(*watcher).topic.armed() {
		runtime.Gosched()
	}
	putPod(t, c, "none", "x", "", "")
	if got := <-got; !reflect.DeepEqual(got, []string{"ADDED none/x@6"}) {
		t.Errorf("quiet watcher: %q", got)
	}
	wantEvents(t, all, "ADDED none/x@6")

	stopped := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
	c.Stop()
	if err := wantEnd(t, stopped); err != io.EOF {
		t.Errorf("watch after stop: %v", err)
	}
	if n := len(c.pasts.readers); n != 0 || store.watches != 0 {
		t.Errorf("%d readers of the past, %d watches of the storage", n, store.watches)
	}
}

// armed reports whether someone waits.
func (s *signal) armed() bool {
	g := s.current.Load()
	return g != nil && g.armed.Load()
}
