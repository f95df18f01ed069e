package cacher

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"weir.dev/weir/server/storage"
)

// A watcher whose client stops reading within the initial events keeps their state only as long as it could go on after it.
func TestInitialStateIsTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		const objects = 2*maxBatch + 10
		for i := range objects {
			putPod(t, store, "a", fmt.Sprintf("%04d", i), "n", "")
			putPod(t, store, "quiet", fmt.Sprintf("%04d", i), "n", "")
		}
		c := newTestCacher(t, store, func(c *Config) { c.RingSize = 8 })
		connect(t, c)
		begin := func(key, field string) storage.Watcher {
			w := mustWatch(t, c, key, selecting(t, "0", "", field))
			if events, err := w.Next(t.Context()); err != nil || len(events) != maxBatch {
				t.Fatal(len(events), err)
			}
			return w
		}
		busy, selects := begin(testPrefix+"a/", ""), begin(testPrefix, "spec.nodeName=n")
		quiet, elsewhere := begin(testPrefix+"quiet/", ""), begin(testPrefix, "metadata.namespace=quiet")
		gone := begin(testPrefix+"a/", "")
		held := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for _, w := range []storage.Watcher{busy, selects, quiet, elsewhere, gone} {
				got += fmt.Sprint(w.(*watcher).initial.view.Load() != nil, " ")
			}
			if n := len(c.views.held); got != want || n != strings.Count(want, "true") {
				t.Errorf("states are held: %s, %d of them, want %s", got, n, want)
			}
		}
		held("true true true true true ")
		gone.Stop()
		held("true true true true false ")
		for range 8 {
			putPod(t, store, "a", "0000", "m", "")
			synctest.Wait()
		}
		held("true true true true false ")
		putPod(t, store, "a", "0000", "m", "")
		// The first write is one of the topic of selects, the others are not.
		held("false false true true false ")
		for _, w := range []storage.Watcher{busy, selects} {
			if events, err := w.Next(t.Context()); storage.CodeOf(err) != storage.ErrCodeExpired {
				t.Errorf("%d events, %v", len(events), err)
			}
		}
		// Who watches what is not written to gets all of it, and goes on.
		for range 20 {
			putPod(t, store, "a", "0000", "m", "")
			synctest.Wait()
		}
		putPod(t, store, "quiet", "x", "", "")
		putPod(t, store, "quiet", "y", "", "")
		synctest.Wait()
		for _, w := range []storage.Watcher{quiet, elsewhere} {
			all := take(t, w, objects-maxBatch+2)
			if want := fmt.Sprintf("ADDED quiet/y@%d", c.Progress()); all[len(all)-1] != want {
				t.Errorf("the last of %d events is %s, want %s", len(all), all[len(all)-1], want)
			}
		}
		held("false false false false false ")
		c.Stop()
	})
}

// A watcher that has sent its initial events keeps nothing of the rows.
func TestInitialEventsKeepNoRow(t *testing.T) {
	store := newFake()
	for i := range maxBatch + 1 {
		putPod(t, store, "a", fmt.Sprintf("%04d", i), "n", "")
	}
	c := started(t, store, nil)
	w := mustWatch(t, c, testPrefix, selecting(t, "0", "", "")).(*watcher)
	take(t, w, maxBatch+1)
	if el := c.cached(w.from); el == nil || unsafe.StringData(el.suffix()) == unsafe.StringData(w.from) {
		t.Errorf("the watcher keeps %q, a part of the row %v", w.from, el)
	}
}

// Whatever comes and goes, the first of the held is the one that the ring forgets next.
func TestHeldViews(t *testing.T) {
	var v views
	of := &topic{}
	var all []*heldView
	for i := range 2000 {
		switch rand.N(5) {
		case 0, 1, 2:
			all = append(all, v.hold(view{next: uint64(1 + i + rand.N(100))}, of))
		case 3:
			if len(all) > 0 {
				n := rand.N(len(all))
				v.drop(all[n])
				v.drop(all[n])
			}
		case 4:
			of.latest.Store(uint64(i)) // the last of the topic
			of.before.Store(uint64(max(i-50, 0)))
			v.revoke(uint64(i), uint64(i))
			for _, h := range all {
				if has := h.view.Load() != nil; has != (h.at >= 0) || has && h.next < uint64(i) {
					t.Fatalf("at %d one that goes on at %d is held: %t, %d", i, h.next, has, h.at)
				}
			}
		}
	}
	for _, h := range all {
		v.drop(h)
	}
	if len(v.held) != 0 || v.oldest.Load() != 0 {
		t.Errorf("%d are held, the oldest %d", len(v.held), v.oldest.Load())
	}
}
