package cacher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
)

func TestIdleStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 10 * time.Minute
		store := newFake()
		x := putPod(t, store, "a", "x", "", "")
		c := newTestCacher(t, store, func(c *Config) { c.IdleTimeout = idle; c.CheckInterval = time.Minute })
		held := func() (rows int) {
			c.mu.RLock()
			defer c.mu.RUnlock()
			return c.rows.Len()
		}

		if list := mustList(t, c, testPrefix, selecting(t, "0", "", "")); len(list.Rows) != 1 || !c.Running() || held() != 1 {
			t.Fatalf("%d rows listed, %d held, running %t", len(list.Rows), held(), c.Running())
		}
		// Reads of any kind keep it, counting and comparing do not.
		for range 4 {
			time.Sleep(idle / 2)
			if _, err := c.Get(t.Context(), x.Key, storage.GetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if !c.Running() {
			t.Error("stopped while it is read")
		}
		watcher := mustWatch(t, c, testPrefix, selecting(t, rvString(x.ResourceVersion), "", ""))
		time.Sleep(3 * idle)
		if !c.Running() {
			t.Error("stopped under a watcher")
		}
		putPod(t, c, "a", "y", "", "")
		wantEvents(t, watcher, "ADDED a/y@3")
		watcher.Stop()
		watcher.Stop()
		for range 8 {
			time.Sleep(idle / 4)
			if _, err := c.Count(t.Context(), testPrefix); err != nil {
				t.Fatal(err)
			}
		}
		if c.Running() || held() != 0 || store.watches != 0 {
			t.Errorf("running %t, %d rows held, %d watches of the storage although nobody uses it", c.Running(), held(), store.watches)
		}
		if n := counted(t, c.metrics.idleStops); n != 1 {
			t.Errorf("%v stops counted", n)
		}

		// While it sleeps things happen; a client goes on where it was.
		putPod(t, c, "a", "x", "n", "")
		removePod(t, c, "a", "y")
		watcher = mustWatch(t, c, testPrefix, selecting(t, "3", "", ""))
		wantEvents(t, watcher, "MODIFIED a/x@4", "DELETED a/y@5")
		putPod(t, c, "a", "z", "", "")
		wantEvents(t, watcher, "ADDED a/z@6")
		watcher.Stop()
		if list := mustList(t, c, testPrefix, selecting(t, "", "", "")); fmt.Sprint(suffixes(list.Rows)) != "[a/x@4 a/z@6]" {
			t.Errorf("rows %v", suffixes(list.Rows))
		}
		c.Stop()
		if n := testutilGauge(t, c.metrics.running); n != 0 {
			t.Errorf("%v caches count as running", n)
		}
	})
}

// A cache may be stopped at any moment in which nobody uses it: readers find their own writes, and a watcher that
// comes back again and again sees every event once and in order.
func TestHammerIdleFake(t *testing.T) { hammerIdle(t, newFake()) }

func TestHammerIdleEtcd(t *testing.T) {
	store, err := etcd3.New(etcd3.Config{Client: etcd3test.New(t), Prefix: "/registry"})
	if err != nil {
		t.Fatal(err)
	}
	hammerIdle(t, store)
}

func hammerIdle(t *testing.T, store storage.Interface) {
	ctx, progress := stalling(t)
	c := newTestCacher(t, store, func(c *Config) {
		c.IdleTimeout = 80 * time.Microsecond
		c.CheckInterval = time.Millisecond
		c.OnInconsistent = func(err error) { t.Error(err) }
		c.Logger = nil
	})
	const writes = 300
	first := putPod(t, c, "a", "start", "", "")
	var wrote []string
	var users sync.WaitGroup
	written := make(chan struct{})
	// Stops come as the pauses of all users happen to fall together. So that some come on a busy machine too, the
	// writer now and then keeps the others away until the cache has been stopped.
	var use sync.RWMutex
	untilStopped := func() {
		use.Lock()
		defer use.Unlock()
		for c.Running() && ctx.Err() == nil {
			pauseFor(ctx, time.Millisecond)
		}
	}
	users.Go(func() {
		defer close(written)
		for i := range writes {
			if i%50 == 49 {
				untilStopped()
			}
			name := fmt.Sprintf("p%d", i%10)
			row := putPod(t, c, "a", name, fmt.Sprint(i), "")
			wrote = append(wrote, fmt.Sprintf("%d %s", row.ResourceVersion, row.Key))
			list, err := c.GetList(ctx, testPrefix, selecting(t, "", "", ""))
			if err != nil || list.ResourceVersion < row.ResourceVersion {
				t.Errorf("list at %d after a write at %d: %v", list.ResourceVersion, row.ResourceVersion, err)
				return
			}
			progress()
			if rand.IntN(2) == 0 {
				pauseFor(ctx, time.Duration(rand.IntN(4000))*time.Microsecond)
			}
		}
	})
	var saw []string
	users.Go(func() {
		at := first.ResourceVersion
		for len(saw) < writes && ctx.Err() == nil && !t.Failed() {
			use.RLock()
			w, err := c.Watch(ctx, testPrefix, selecting(t, rvString(at), "", ""))
			if err != nil {
				use.RUnlock()
				t.Error(err)
				return
			}
			for range 1 + rand.IntN(3) {
				short, done := context.WithTimeout(ctx, 5*time.Millisecond)
				events, err := w.Next(short)
				done()
				if errors.Is(err, io.EOF) || err != nil {
					break
				}
				progress()
				for _, e := range events {
					if e.Type != storage.Bookmark {
						saw = append(saw, fmt.Sprintf("%d %s", e.Row.ResourceVersion, e.Row.Key))
					}
					at = e.Row.ResourceVersion
				}
			}
			w.Stop()
			use.RUnlock()
			pauseFor(ctx, time.Duration(rand.IntN(4000))*time.Microsecond)
		}
	})
	users.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-written:
				return
			default:
			}
			use.RLock()
			_, err := c.GetList(ctx, testPrefix, selecting(t, "0", "", ""))
			use.RUnlock()
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			pauseFor(ctx, time.Duration(rand.IntN(6000))*time.Microsecond)
		}
	})
	users.Wait()
	for i := range max(len(saw), len(wrote)) {
		if i >= len(saw) || i >= len(wrote) || saw[i] != wrote[i] {
			t.Errorf("saw %d events, wrote %d; from %d on saw %q, wrote %q", len(saw), len(wrote), i, saw[min(i, len(saw)):], wrote[min(i, len(wrote)):])
			break
		}
	}
	if n := counted(t, c.metrics.idleStops); n < writes/50 && !t.Failed() {
		t.Errorf("the cache was stopped %v times", n)
	} else {
		t.Logf("stopped %v times", n)
	}
}

// pauseFor lets time pass in which the cache may be found idle.
func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
