package cacher

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir.dev/weir/server/storage"
)

func testutilGauge(t testing.TB, g prometheus.Gauge) float64 {
	t.Helper()
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

// liar is a storage whose watch once says something else than what happened.
type liar struct {
	*fake
	lie atomic.Pointer[func([]storage.Event) []storage.Event]
}

func (l *liar) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	w, err := l.fake.Watch(ctx, key, opts)
	return &lyingWatcher{w, l}, err
}

type lyingWatcher struct {
	storage.Watcher
	liar *liar
}

func (w *lyingWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		events, err := w.Watcher.Next(ctx)
		if len(events) == 0 || events[0].Type == storage.Bookmark {
			return events, err
		}
		lie := w.liar.lie.Swap(nil)
		if lie == nil {
			return events, err
		}
		if events = (*lie)(events); len(events) > 0 {
			return events, err
		}
	}
}

// A cache that was told a lie is found out, and is right again soon after.
func TestLies(t *testing.T) {
	tests := []struct {
		name string
		lie  func([]storage.Event) []storage.Event
		want string
	}{
		{"an event is kept back", func([]storage.Event) []storage.Event { return nil }, `"/registry/pods/a/x" is cached at revision 2, stored at 4`},
		{"other bytes", func(events []storage.Event) []storage.Event {
			events[0].Row.Value = storage.NewText([]byte(strings.Replace(events[0].Row.Value.String(), "Pod", "Pot", 1)))
			return events
		}, `"/registry/pods/a/x" is cached with other bytes than stored`},
		{"a deletion", func(events []storage.Event) []storage.Event {
			events[0].Type = storage.Deleted
			return events
		}, `"/registry/pods/a/x" is not cached`},
		{"another object", func(events []storage.Event) []storage.Event {
			events[0].Row.Key = podKey("a", "w")
			return events
		}, `"/registry/pods/a/w" is not stored`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &liar{fake: newFake()}
				putPod(t, store, "a", "x", "", "")
				putPod(t, store, "a", "y", "", "")
				told := make(chan error, 10)
				c := newTestCacher(t, store, func(c *Config) {
					c.CheckInterval = time.Second
					c.OnInconsistent = func(err error) { told <- err }
				})
				connect(t, c)
				watcher := mustWatch(t, c, testPrefix, selecting(t, "3", "", ""))
				time.Sleep(10 * time.Second)
				store.lie.Store(&tc.lie)
				putPod(t, store, "a", "x", "n", "")
				err := <-told
				if !errors.Is(err, ErrInconsistent) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want one that says %s", err, tc.want)
				}
				// Who watched is sent to list again.
				for {
					if _, err = watcher.Next(t.Context()); err != nil {
						break
					}
				}
				if storage.CodeOf(err) != storage.ErrCodeExpired {
					t.Errorf("the watch ended with %v, want expired", err)
				}
				list := mustList(t, c, testPrefix, selecting(t, "", "", ""))
				want := mustList(t, store.fake, testPrefix, selecting(t, "", "", ""))
				if len(list.Rows) != 2 || list.Rows[0].Value.String() != want.Rows[0].Value.String() || list.Rows[0].Key != want.Rows[0].Key {
					t.Errorf("after that the cache has %v", suffixes(list.Rows))
				}
				time.Sleep(time.Minute)
				if n := counted(t, c.metrics.checkFailure); n != 1 || len(told) != 0 {
					t.Errorf("%v failures counted, %d more told", n, len(told))
				}
				c.Stop()
			})
		})
	}
}

// Where nothing was written, comparisons are left out, but not for ever.
func TestChecksLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		c := newTestCacher(t, store, func(c *Config) { c.CheckInterval = time.Second })
		connect(t, c)
		time.Sleep(200 * time.Second)
		if n := counted(t, c.metrics.checkSuccess); n < 200.0/idleChecks/2 || n > 200.0/idleChecks*2 {
			t.Errorf("%v comparisons in 200 seconds without a write, want about %d", n, 200/idleChecks)
		}
		before := counted(t, c.metrics.checkSuccess)
		for range 50 {
			putPod(t, store, "a", "x", "", "")
			time.Sleep(2 * time.Second)
		}
		if n := counted(t, c.metrics.checkSuccess) - before; n < 40 {
			t.Errorf("%v comparisons in 100 seconds with writes", n)
		}
		c.Stop()
	})
}

// The lists by which a cache asks after objects that cannot be read become rare; it is filled at once when they are gone.
func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		row := putPod(t, store, "a", "bad", "", "")
		store.listErr = &storage.Error{Code: storage.ErrCodeCorruptObj, Key: row.Key, Message: "bad"}
		store.getErr = map[string]error{row.Key: store.listErr}
		c := newTestCacher(t, store, nil)
		// The storage says what is wrong, also to a watch.
		if _, err := c.GetList(t.Context(), testPrefix, selecting(t, "0", "", "")); storage.CodeOf(err) != storage.ErrCodeCorruptObj {
			t.Errorf("list: %v", err)
		}
		watcher := mustWatch(t, c, testPrefix, selecting(t, "0", "", ""))
		if _, err := watcher.Next(t.Context()); storage.CodeOf(err) != storage.ErrCodeCorruptObj {
			t.Errorf("watch: %v", err)
		}
		time.Sleep(5 * time.Minute)
		lists := store.listsDone()
		time.Sleep(30 * time.Minute)
		if n := store.listsDone() - lists; n > 70 {
			t.Errorf("%d lists in 30 minutes", n)
		}
		// Another server deletes it: that is seen within a second.
		removePod(t, store, "a", "bad")
		store.do(func() { store.listErr, store.getErr = nil, nil })
		time.Sleep(repairLook)
		synctest.Wait()
		if !c.isReady.Load() {
			t.Error("not filled although everything can be read")
		}
		c.Stop()
	})
}

// A deletion through the cache itself is seen at once.
func TestRepairHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		row := putPod(t, store, "a", "bad", "", "")
		store.listErr = &storage.Error{Code: storage.ErrCodeCorruptObj, Key: row.Key, Message: "bad"}
		store.getErr = map[string]error{row.Key: store.listErr}
		c := newTestCacher(t, store, nil)
		if _, err := c.GetList(t.Context(), testPrefix, selecting(t, "0", "", "")); storage.CodeOf(err) != storage.ErrCodeCorruptObj {
			t.Errorf("list: %v", err)
		}
		time.Sleep(10 * time.Minute)
		store.do(func() { store.listErr, store.getErr = nil, nil })
		begin := time.Now()
		if _, err := c.Delete(t.Context(), row.Key, storage.DeleteOptions{Unreadable: true}); err != nil {
			t.Fatal(err)
		}
		if list := mustList(t, c, testPrefix, selecting(t, "0", "", "")); len(list.Rows) != 0 {
			t.Errorf("list %v", suffixes(list.Rows))
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("a list waited %v for the cache to be filled", waited)
		}
		c.Stop()
	})
}
