package cacher

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"weir.dev/weir/server/storage"
)

// manyPasts returns a cacher and more watchers from before its start than may read from
// the storage at a time. Each has two events to come.
func manyPasts(t *testing.T) (*Cacher, *fake, []storage.Watcher) {
	t.Helper()
	store := newFake()
	for _, name := range []string{"x", "y", "z"} {
		putPod(t, store, "a", name, "", "")
	}
	c := started(t, store, nil)
	var all []storage.Watcher
	for range maxPast + 40 {
		all = append(all, mustWatch(t, c, testPrefix, selecting(t, "2", "", "")))
	}
	return c, store, all
}

// open returns how many watches are open.
func (f *fake) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches
}

// TestPastTurns: watchers that may not read from the storage yet wait, and lose nothing.
func TestPastTurns(t *testing.T) {
	c, store, all := manyPasts(t)
	last := all[len(all)-1]
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if events, err := last.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a watcher that waits for its turn: %d events, %v", len(events), err)
	}
	// One that is stopped while it waits, and one while it reads, hold nobody up.
	all[maxPast+1].Stop()
	all[0].Stop()
	for i, w := range all {
		if i == 0 || i == maxPast+1 {
			if err := wantEnd(t, w); err != io.EOF {
				t.Errorf("stopped watcher: %v", err)
			}
			continue
		}
		wantEvents(t, &oneByOne{Watcher: w}, "ADDED a/y@3", "ADDED a/z@4")
	}
	if n, q := len(c.pasts.readers), len(c.pasts.queue); n != 0 || q != 0 || store.watches != 1 {
		t.Errorf("%d readers of the past, %d in the queue, %d watches of the storage", n, q, store.watches)
	}
}

// TestPastStalls: a watcher that reads from the storage and is not asked for events gives that up after a while, and
// earlier where others wait for their turn. Its client goes on from where it is, and misses nothing.
func TestPastStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store, all := manyPasts(t)
		time.Sleep(pastStallQueued - time.Second)
		if store.open() != 1+maxPast {
			t.Errorf("%d watches of the storage, want the cache's and %d", store.open(), maxPast)
		}
		// One reads.
		reader := &oneByOne{Watcher: all[7]}
		wantEvents(t, reader, "ADDED a/y@3", "ADDED a/z@4")
		time.Sleep(3 * time.Second) // the turn is that of those who have waited
		wantEvents(t, &oneByOne{Watcher: all[maxPast+3]}, "ADDED a/y@3", "ADDED a/z@4")
		if err := wantEnd(t, all[3]); err != io.EOF {
			t.Errorf("one that was not asked for events ended with %v", err)
		}
		again := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
		wantEvents(t, &oneByOne{Watcher: again}, "ADDED a/y@3", "ADDED a/z@4")
		// Nobody waits any more.
		time.Sleep(pastStall - 5*time.Second)
		wantEvents(t, &oneByOne{Watcher: all[maxPast+20]}, "ADDED a/y@3", "ADDED a/z@4")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := store.open(); n != 1 {
			t.Errorf("%d watches of the storage, want the cache's alone", n)
		}
		if err := wantEnd(t, all[maxPast+21]); err != io.EOF {
			t.Errorf("one that was not asked for events ended with %v", err)
		}
		putPod(t, store, "a", "x", "", "")
		wantEvents(t, reader, "MODIFIED a/x@5")
		c.Stop()
	})
}

// TestPastWaits: a watcher that is asked for events keeps its turn, however long the storage has none for it.
func TestPastWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		putPod(t, store, "a", "y", "", "")
		c := started(t, store, nil)
		w := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
		store.do(func() { store.silent = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if events, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d events, %v", len(events), err)
		}
		store.do(func() { store.silent = false })
		wantEvents(t, w, "ADDED a/y@3")
		c.Stop()
	})
}

// dribble is a storage whose watches give one event at a time, but for that of the cache.
type dribble struct{ *fake }

func (d dribble) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	w, err := d.fake.Watch(ctx, key, opts)
	if opts.Bare || err != nil {
		return w, err
	}
	return &oneByOne{Watcher: w}, nil
}

// TestPastSlow: a watcher that reads more slowly than is written gives its turn up now and then, with all that it has got.
func TestPastSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dribble{newFake()}
		putPod(t, store, "a", "x", "", "")
		putPod(t, store, "a", "x", "", "")
		c := newTestCacher(t, store, func(c *Config) { c.RingSize = 4 })
		connect(t, c)
		w := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
		seen, ends := uint64(2), 0
		const pause, pauses = 4 * time.Second, 100
		for range pauses {
			for range 8 { // the ring stays out of reach
				putPod(t, store, "a", "x", "", "")
			}
			synctest.Wait()
			events, err := w.Next(t.Context())
			if err == io.EOF {
				ends++
				w = mustWatch(t, c, testPrefix, selecting(t, rvString(seen), "", ""))
				events, err = w.Next(t.Context())
			}
			if err != nil || len(events) != 1 || events[0].Row.ResourceVersion != seen+1 {
				t.Fatalf("after %d: %v, %v", seen, events, err)
			}
			seen++
			time.Sleep(pause)
		}
		if want := int(pauses * pause / pastTurn); ends < want-1 || ends > want {
			t.Errorf("the turn was given up %d times, want %d", ends, want)
		}
		c.Stop()
	})
}

// TestPastTurnNeverComes: those that have the turn hold the others up for a while only.
func TestPastTurnNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store, all := manyPasts(t)
		store.do(func() { store.silent = true })
		for _, w := range all[:maxPast] {
			go func() { _, _ = w.Next(t.Context()) }()
		}
		before := time.Now()
		var e *storage.Error
		_, err := all[len(all)-1].Next(t.Context())
		if !errors.As(err, &e) || e.Code != storage.ErrCodeExpired || e.ResourceVersion != 2 {
			t.Errorf("error %v", err)
		}
		if waited := time.Since(before); waited != pastWait {
			t.Errorf("it waited for %s", waited)
		}
		c.Stop()
	})
}

// TestPastStop: a stop of the cacher ends the watchers that read from the storage and those that wait.
func TestPastStop(t *testing.T) {
	c, store, all := manyPasts(t)
	c.Stop()
	for _, w := range all {
		if err := wantEnd(t, w); err != io.EOF {
			t.Fatalf("after stop: %v", err)
		}
	}
	if store.watches != 0 {
		t.Errorf("%d watches of the storage", store.watches)
	}
}

// shut is a storage whose watches, but for that of the cache, do not begin before its gate is done, or their own context is.
type shut struct {
	*fake
	gate context.Context //nolint:containedctx // it is what the watches wait for
}

func (s shut) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	if !opts.Bare {
		select {
		case <-s.gate.Done():
		case <-ctx.Done():
		}
	}
	return s.fake.Watch(ctx, key, opts)
}

// shutCacher returns a cacher on a storage that is shut for an hour, or until open.
func shutCacher(t *testing.T) (c *Cacher, store shut, open func()) {
	t.Helper()
	gate, open := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(open)
	store = shut{newFake(), gate}
	putPod(t, store, "a", "x", "", "")
	putPod(t, store, "a", "y", "", "")
	c = newTestCacher(t, store, nil)
	connect(t, c)
	return c, store, open
}

// TestPastOpening: watchers whose storage does not begin to watch keep their turn for a while only, and not when their Next
// is given up or they are stopped.
func TestPastOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store, open := shutCacher(t)
		began := time.Now()
		opened := make(chan storage.Watcher, maxPast)
		for range maxPast {
			go func() {
				w, err := c.Watch(t.Context(), testPrefix, selecting(t, "2", "", ""))
				if err != nil {
					t.Error(err)
					w = &ended{err}
				}
				opened <- w
			}()
		}
		synctest.Wait()
		patient, stopped := mustWatch(t, c, testPrefix, selecting(t, "2", "", "")), mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
		for range maxPast {
			w := <-opened
			if events, err := w.Next(t.Context()); err != io.EOF {
				t.Fatalf("one that could not begin: %d events, %v", len(events), err)
			}
		}
		if took := time.Since(began); took > pastStallQueued+pastLook {
			t.Errorf("the turns were kept for %s", took)
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began = time.Now()
			if events, err := patient.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Fatalf("%d events, %v after %s", len(events), err, time.Since(began))
			}
			cancel()
		}
		time.AfterFunc(time.Second, stopped.Stop)
		began = time.Now()
		if events, err := stopped.Next(t.Context()); err != io.EOF || time.Since(began) != time.Second {
			t.Errorf("one that is stopped: %d events, %v after %s", len(events), err, time.Since(began))
		}
		open()
		wantEvents(t, patient, "ADDED a/y@3")
		if n := store.open(); n != 1 || len(c.pasts.readers) != 0 {
			t.Errorf("%d watches of the storage, %d readers of the past", n, len(c.pasts.readers))
		}
		c.Stop()
	})
}

// TestPastOpeningStop: a stop of the cacher ends what waits for the storage to begin.
func TestPastOpeningStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store, _ := shutCacher(t)
		began := time.Now()
		time.AfterFunc(time.Second, c.Stop)
		if err := wantEnd(t, mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))); err != io.EOF || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		synctest.Wait()
		if n := store.open(); n != 0 {
			t.Errorf("%d watches of the storage", n)
		}
	})
}
