package cacher

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir.dev/weir/server/storage"
)

// mute is a storage whose watches stay open and tell nothing: neither events nor bookmarks. It answers all else.
type mute struct {
	*fake
	// made counts watches. Those up to silenced tell nothing.
	made, silenced atomic.Int64
	// holds is how many calls of Watch wait until their context is done.
	holds atomic.Int64
	// lags: watches tell one event every four seconds, and no bookmarks.
	lags atomic.Bool
}

func (m *mute) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	if m.holds.Add(-1) >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w, err := m.fake.Watch(ctx, key, opts)
	return &muteWatcher{Watcher: w, mute: m, n: m.made.Add(1)}, err
}

type muteWatcher struct {
	storage.Watcher
	mute *mute
	n    int64
	late []storage.Event
}

func (w *muteWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		if len(w.late) > 0 {
			select {
			case <-time.After(4 * time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			first := w.late[:1]
			w.late = w.late[1:]
			return first, nil
		}
		events, err := w.Watcher.Next(ctx)
		if w.mute.lags.Load() {
			for _, e := range events {
				if e.Type != storage.Bookmark {
					w.late = append(w.late, e)
				}
			}
			if err == nil {
				continue
			}
		}
		if err != nil || w.n > w.mute.silenced.Load() {
			return events, err
		}
	}
}

// Where the storage answers and its watch does not, the watch is begun anew: who watches the cache misses nothing, and
// who reads from it does not read the past.
func TestStuckWatch(t *testing.T) {
	tests := []struct {
		name string
		// then is done once the watch is stuck.
		then   func(t *testing.T, store *mute, c *Cacher)
		within time.Duration
	}{
		{"nobody asks for the revision", func(t *testing.T, store *mute, _ *Cacher) {
			putPod(t, store, "a", "x", "", "")
		}, 40 * time.Second},
		{"a read has", func(t *testing.T, store *mute, c *Cacher) {
			putPod(t, store, "a", "x", "", "")
			mustList(t, c, testPrefix, selecting(t, "", "", ""))
		}, 15 * time.Second},
		{"the write was made here", func(t *testing.T, _ *mute, c *Cacher) {
			putPod(t, c, "a", "x", "", "")
		}, 15 * time.Second},
		{"the next cannot be opened", func(t *testing.T, store *mute, c *Cacher) {
			store.holds.Store(1)
			store.kill(context.DeadlineExceeded)
			putPod(t, c, "a", "x", "", "")
		}, 15 * time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &mute{fake: newFake()}
				putPod(t, store, "a", "w", "", "")
				c := newTestCacher(t, store, nil)
				connect(t, c)
				watcher := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
				store.silenced.Store(store.made.Load())
				tc.then(t, store, c)
				putPod(t, store, "a", "y", "", "")
				time.Sleep(tc.within)
				began := time.Now()
				wantEvents(t, &oneByOne{Watcher: watcher}, "ADDED a/x@3", "ADDED a/y@4")
				if waited := time.Since(began); waited > 0 {
					t.Errorf("the events came %s later than within %s", waited, tc.within)
				}
				opts := selecting(t, "0", "", "")
				if list := mustList(t, c, testPrefix, opts); len(list.Rows) != 3 {
					t.Errorf("list of %v", suffixes(list.Rows))
				}
				time.Sleep(time.Hour)
				if n := counted(t, c.metrics.watchRestarts); n != 1 || store.listsDone() > 2 {
					t.Errorf("%v watches were stuck, %d lists of the storage", n, store.listsDone())
				}
				c.Stop()
			})
		})
	}
}

// A quiet resource in a storage that others write to is not stuck, nor is a watch that is slow, or a storage that does
// not answer.
func TestNotStuck(t *testing.T) {
	tests := []struct {
		name string
		// each is done every second.
		each func(t *testing.T, store *mute, i int)
	}{
		{"others write", func(_ *testing.T, store *mute, _ int) { store.skip(1) }},
		{"behind and coming nearer", func(t *testing.T, store *mute, _ int) {
			store.lags.Store(true)
			putPod(t, store, "a", "x", "", "")
		}},
		{"nothing is answered", func(_ *testing.T, store *mute, i int) {
			store.do(func() {
				if i == 0 {
					store.silent, store.block = true, make(chan struct{})
				}
				store.rv++
			})
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &mute{fake: newFake()}
				c := newTestCacher(t, store, nil)
				connect(t, c)
				for i := range 1000 {
					tc.each(t, store, i)
					time.Sleep(time.Second)
				}
				if n := counted(t, c.metrics.watchRestarts); n != 0 {
					t.Errorf("%v watches were taken for stuck", n)
				}
				c.Stop()
			})
		})
	}
}

// Where no watch tells anything, they are begun anew ever less often, so that a storage that is slow gets its time.
func TestStuckBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mute{fake: newFake()}
		c := newTestCacher(t, store, nil)
		connect(t, c)
		watcher := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
		store.silenced.Store(1 << 40)
		putPod(t, store, "a", "x", "", "")
		time.Sleep(time.Minute)
		if n := counted(t, c.metrics.watchRestarts); n < 1 || n > 4 {
			t.Errorf("%v watches in a minute", n)
		}
		time.Sleep(time.Hour - time.Minute)
		if n := counted(t, c.metrics.watchRestarts); n < 10 || n > 25 {
			t.Errorf("%v watches in an hour", n)
		}
		store.silenced.Store(store.made.Load())
		time.Sleep(2 * longestStuckPause)
		wantEvents(t, watcher, "ADDED a/x@2")
		// The next one that is stuck is found soon again.
		store.silenced.Store(store.made.Load())
		putPod(t, c, "a", "y", "", "")
		time.Sleep(time.Minute)
		before := time.Now()
		wantEvents(t, watcher, "ADDED a/y@3")
		if waited := time.Since(before); waited > 0 {
			t.Errorf("the event came %s later than within a minute", waited)
		}
		c.Stop()
	})
}

// What the storage said before it was restored is no reason to take its watch for stuck.
func TestStuckRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		c := newTestCacher(t, store, nil)
		connect(t, c)
		store.do(func() { store.silent = true; store.rv = 100 })
		mustList(t, c, testPrefix, selecting(t, "", "", ""))
		store.do(func() { store.silent = false; store.rv = 50 })
		time.Sleep(time.Hour)
		if n := counted(t, c.metrics.watchRestarts); n != 0 {
			t.Errorf("%v watches were taken for stuck", n)
		}
		c.Stop()
	})
}

// eager is a storage in which others write whenever it is asked for its revision.
type eager struct {
	*fake
	is atomic.Bool
}

func (e *eager) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if e.is.Load() {
		e.skip(1)
	}
	return e.fake.GetCurrentResourceVersion(ctx)
}

// What a storage said before it was restored is forgotten, whoever has heard it: a healthy watch is not ended, and its
// progress is not asked for without end, as others go on writing. What the cache has of the time before is read again.
func TestStuckRestoredAndWritten(t *testing.T) {
	tests := []struct {
		name string
		// hear makes the cache hear of revision 1000000, restore what it does once the storage is back at 500.
		hear, restore func(t *testing.T, store *eager, c *Cacher)
		every         time.Duration // others write
		eager         bool
	}{
		{"the cache was there, others write often", hearThere, nil, time.Second, false},
		{"the cache was there, others write now and then", hearThere, nil, time.Minute, true},
		{"the cache was not there, others write often", hearOf, nil, time.Second, false},
		{"the cache was not there, others write now and then", hearOf, nil, time.Minute, true},
		{"the cache was stopped", func(t *testing.T, store *eager, c *Cacher) {
			hearThere(t, store, c)
			time.Sleep(time.Hour) // it stops
			putPod(t, c, "a", "y", "", "")
		}, func(t *testing.T, _ *eager, c *Cacher) {
			connect(t, c)
			mustWatch(t, c, testPrefix, selecting(t, "", "", "")).Stop() // it is found out at once
		}, time.Second, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &eager{fake: newFake()}
				c := newTestCacher(t, store, func(c *Config) { c.IdleTimeout = 10 * time.Minute })
				connect(t, c)
				tc.hear(t, store, c)
				lists := store.listsDone()
				store.do(func() { store.silent, store.rv, store.rows, store.log = false, 500, map[string]storage.Row{}, nil })
				if tc.restore != nil {
					tc.restore(t, store, c)
				}
				end := time.Now().Add(time.Hour)
				for found := time.Now().Add(time.Minute); time.Now().Before(found); time.Sleep(tc.every) {
					store.skip(1)
				}
				watcher := mustWatch(t, c, testPrefix, selecting(t, "", "", ""))
				defer watcher.Stop()
				asked := store.asked()
				store.is.Store(tc.eager)
				for time.Now().Before(end) {
					store.skip(1)
					time.Sleep(tc.every)
				}
				if n := store.asked() - asked; n > 1000 {
					t.Errorf("progress was asked for %d times in an hour", n)
				}
				if n := counted(t, c.metrics.watchRestarts); n != 0 {
					t.Errorf("%v watches were taken for stuck", n)
				}
				if n := store.listsDone() - lists; n == 0 || n > 4 {
					t.Errorf("%d lists of the storage", n)
				}
				c.Stop()
			})
		})
	}
}

// hearThere has the cache come to the revision.
func hearThere(t *testing.T, store *eager, c *Cacher) {
	store.do(func() { store.rv = 1000000 })
	mustList(t, c, testPrefix, selecting(t, "", "", ""))
}

// hearOf has a read hear of the revision, that the watch does not tell.
func hearOf(t *testing.T, store *eager, c *Cacher) {
	store.do(func() { store.silent, store.rv = true, 1000000 })
	mustList(t, c, testPrefix, selecting(t, "", "", ""))
}

func (f *fake) asked() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress
}

// A cache that is quiet and well asks ever less often, and one that an event has come to soon again. A watch that is stuck
// is found however long all was quiet.
func TestQuietAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = stuckLook * (quietLooks << quietDoublings)
		store := &mute{fake: newFake()}
		c := newTestCacher(t, store, nil)
		connect(t, c)
		watcher := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
		questions := func() int {
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.current
		}
		for _, others := range []uint64{0, 1} {
			before := questions()
			for range 24 * 60 {
				store.skip(others)
				time.Sleep(time.Minute)
			}
			if n := questions() - before; n < int(24*time.Hour/longest/2) || n > int(24*time.Hour/longest)*5/4 {
				t.Errorf("%d questions in a day, want one every %s", n, longest)
			}
		}
		before := questions()
		for range 24 * 60 * 2 { // what the watch tells is as good as an answer
			store.skip(1)
			if err := c.RequestWatchProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		if n := questions() - before; n > 1 {
			t.Errorf("%d questions in a day in which the watch told of progress", n)
		}
		stuck := func(within time.Duration, want string, name string) {
			t.Helper()
			store.silenced.Store(store.made.Load())
			putPod(t, store, "a", name, "", "")
			time.Sleep(within)
			began := time.Now()
			wantEvents(t, watcher, want+rvString(store.rv))
			if waited := time.Since(began); waited > 0 {
				t.Errorf("the event came %s later than within %s", waited, within)
			}
		}
		stuck(longest*3/2+20*time.Second, "ADDED a/x@", "x")
		putPod(t, store, "a", "z", "", "")
		wantEvents(t, watcher, "ADDED a/z@"+rvString(store.rv))
		time.Sleep(2 * stuckLook)
		stuck(time.Minute, "ADDED a/y@", "y")
		c.Stop()
	})
}

// A quiet cache that is told of what others have heard asks no question of its own, asks its watch for progress seldom and only
// where something was written, and finds one that is stuck within a minute.
func TestQuietShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mute{fake: newFake()}
		current := func() uint64 {
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.rv
		}
		c := newTestCacher(t, store, func(c *Config) { c.Revision = current })
		connect(t, c)
		watcher := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
		time.Sleep(time.Hour)
		questions := func() int {
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.current
		}
		progress := func() uint64 {
			store.mu.Lock()
			defer store.mu.Unlock()
			return store.progress
		}
		for _, tc := range []struct{ others, least, most uint64 }{{0, 0, 24 * 60}, {1, 24 * 60, 24 * 60 * 5}} {
			asked, before := questions(), progress()
			for range 24 * 60 * 60 {
				store.skip(tc.others)
				time.Sleep(time.Second)
			}
			if n := questions() - asked; n > 0 {
				t.Errorf("%d questions in a day", n)
			}
			// Bookmarks of watchers ask once a minute.
			if n := progress() - before; n < tc.least || n > tc.most {
				t.Errorf("progress was asked for %d times in a day, want %d to %d", n, tc.least, tc.most)
			}
		}
		if n := counted(t, c.metrics.watchRestarts); n != 0 {
			t.Errorf("%v watches were taken for stuck", n)
		}
		for _, name := range []string{"x", "y"} {
			store.silenced.Store(store.made.Load())
			putPod(t, store, "a", name, "", "")
			time.Sleep(time.Minute)
			began := time.Now()
			wantEvents(t, watcher, "ADDED a/"+name+"@"+rvString(store.rv))
			if waited := time.Since(began); waited > 0 {
				t.Errorf("the event came %s later than within a minute", waited)
			}
			time.Sleep(time.Hour)
		}
		c.Stop()
	})
}

// Where others do not know the revision, a quiet cache asks for it.
func TestQuietSharesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mute{fake: newFake()}
		c := newTestCacher(t, store, func(c *Config) { c.Revision = func() uint64 { return 0 } })
		connect(t, c)
		watcher := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
		time.Sleep(time.Hour)
		store.silenced.Store(store.made.Load())
		putPod(t, store, "a", "x", "", "")
		time.Sleep(4 * time.Minute)
		began := time.Now()
		wantEvents(t, watcher, "ADDED a/x@"+rvString(store.rv))
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the event came %s later than within four minutes", waited)
		}
		c.Stop()
	})
}

// What others have heard may be of before the storage was restored: no watch is stuck for that, and nothing is read again.
func TestQuietSharesThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &eager{fake: newFake()}
		c := newTestCacher(t, store, func(c *Config) { c.Revision = func() uint64 { return 1000000 } })
		connect(t, c)
		store.is.Store(true) // the revision that the cache is told is one that its watch has not come to yet
		for range 60 {
			store.skip(1)
			time.Sleep(time.Minute)
		}
		if n, lists := counted(t, c.metrics.watchRestarts), store.listsDone(); n != 0 || lists > 1 {
			t.Errorf("%v watches were taken for stuck, %d lists", n, lists)
		}
		c.Stop()
	})
}
