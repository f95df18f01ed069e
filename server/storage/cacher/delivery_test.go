package cacher

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/server/storage"
)

// taker is a watcher of pods whose events are taken.
type taker struct {
	*watcher
	took   []string
	refuse atomic.Bool
	later  func()
	// returned is what Next has returned.
	returned []string
	err      error
	done     chan struct{}
}

func newTaker(t *testing.T, c *Cacher, key string, opts storage.ListOptions) *taker {
	t.Helper()
	w, ok := mustWatch(t, c, key, opts).(*watcher)
	if !ok {
		t.Fatal("not a watcher of the cache")
	}
	k := &taker{watcher: w, done: make(chan struct{})}
	w.Offer(func(events []storage.Event) (taken bool, later func()) {
		if k.refuse.Load() {
			return false, nil
		}
		for _, e := range events {
			k.took = append(k.took, describe(e))
		}
		return true, k.later
	}, 0)
	return k
}

// follow calls Next until it fails.
func (k *taker) follow(t *testing.T) {
	defer close(k.done)
	for {
		events, err := k.Next(t.Context())
		if err != nil {
			k.err = err
			return
		}
		for _, e := range events {
			k.returned = append(k.returned, describe(e))
		}
	}
}

// newTakers has n of them follow what comes below a key.
func newTakers(t *testing.T, c *Cacher, n int, key string, change func(*storage.ListOptions)) []*taker {
	t.Helper()
	opts := selecting(t, rvString(c.Progress()), "", "")
	if change != nil {
		change(&opts)
	}
	all := make([]*taker, n)
	for i := range all {
		all[i] = newTaker(t, c, key, opts)
		go all[i].follow(t)
	}
	synctest.Wait()
	// The first of them did not know that they would be many, and are woken once more.
	namespace, _, _ := strings.Cut(strings.TrimPrefix(key, testPrefix)+"a/", "/")
	putPod(t, c, namespace, "first", "", "")
	synctest.Wait()
	for _, k := range all {
		k.took, k.returned = nil, nil
	}
	return all
}

func (k *taker) check(t *testing.T, took, returned string) {
	t.Helper()
	if fmt.Sprint(k.took) != took || fmt.Sprint(k.returned) != returned {
		t.Errorf("took %v, Next returned %v; want %s and %s", k.took, k.returned, took, returned)
	}
}

// TestDelivery: the events of many watchers are taken, and Next returns what is not.
func TestDelivery(t *testing.T) {
	tests := []struct {
		name           string
		n              int
		change         func(*taker)
		took, returned string
	}{
		{name: "one alone is woken", n: 1, took: "[]", returned: "[ADDED a/y@4 MODIFIED a/y@5]"},
		{name: "few are woken", n: manyTakers - 1, took: "[]", returned: "[ADDED a/y@4 MODIFIED a/y@5]"},
		{name: "many take", n: manyTakers, took: "[ADDED a/y@4 MODIFIED a/y@5]", returned: "[]"},
		{name: "a hundred take", n: 100, took: "[ADDED a/y@4 MODIFIED a/y@5]", returned: "[]"},
		{name: "who refuses is woken", n: 20, change: func(k *taker) { k.refuse.Store(true) }, took: "[]", returned: "[ADDED a/y@4 MODIFIED a/y@5]"},
		{name: "who panics is woken", n: 20, change: func(k *taker) {
			k.take = func([]storage.Event) (bool, func()) { panic("a bug") }
		}, took: "[]", returned: "[ADDED a/y@4 MODIFIED a/y@5]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFake()
				putPod(t, store, "a", "x", "", "")
				c := started(t, store, nil)
				all := newTakers(t, c, tc.n, testPrefix, nil)
				for _, k := range all {
					if tc.change != nil {
						tc.change(k)
					}
				}
				putPod(t, c, "a", "y", "", "")
				synctest.Wait()
				putPod(t, c, "a", "y", "n1", "")
				synctest.Wait()
				for _, k := range all {
					k.check(t, tc.took, tc.returned)
				}
			})
		})
	}
}

// TestDeliveryLater: what is left to do is done, once for each that says so, when all have taken.
func TestDeliveryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		c := started(t, store, nil)
		all := newTakers(t, c, 100, testPrefix, nil)
		var done atomic.Int32
		for i, k := range all {
			if i%2 == 0 {
				k.later = func() {
					for _, other := range all {
						if len(other.took) == 0 {
							t.Error("not all have taken theirs")
						}
					}
					done.Add(1)
				}
			}
		}
		putPod(t, c, "a", "y", "", "")
		synctest.Wait()
		if n := done.Load(); n != 50 {
			t.Errorf("done %d times", n)
		}
	})
}

// TestDeliveryEnds: what ends a watch, and bookmarks, come from Next.
func TestDeliveryEnds(t *testing.T) {
	tooOld := &storage.Error{Code: storage.ErrCodeExpired, Message: "gone"}
	tests := []struct {
		name string
		end  func(*Cacher, *taker)
		want error
	}{
		{"stopped", func(_ *Cacher, k *taker) { k.Stop() }, io.EOF},
		{"the cache is stopped", func(c *Cacher, _ *taker) { c.Stop() }, io.EOF},
		{"the watchers are ended", func(c *Cacher, _ *taker) { c.endWatchers(tooOld) }, tooOld},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFake()
				putPod(t, store, "a", "x", "", "")
				c := started(t, store, nil)
				all := newTakers(t, c, 20, testPrefix, nil)
				putPod(t, c, "a", "y", "", "")
				synctest.Wait()
				for _, k := range all {
					tc.end(c, k)
				}
				synctest.Wait()
				for _, k := range all {
					k.check(t, "[ADDED a/y@4]", "[]")
					if <-k.done; !errors.Is(k.err, tc.want) {
						t.Errorf("ended with %v", k.err)
					}
				}
			})
		})
	}
}

func TestDeliveryBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		c := started(t, store, nil)
		all := newTakers(t, c, 20, testPrefix, func(opts *storage.ListOptions) { opts.Predicate.AllowWatchBookmarks = true })
		putPod(t, c, "a", "y", "", "")
		time.Sleep(c.config.BookmarkPeriod + time.Second)
		synctest.Wait()
		for _, k := range all {
			k.check(t, "[ADDED a/y@4]", "[BOOKMARK@4]")
		}
	})
}

// TestVisit: a visit gives everything that its watcher has not seen, whatever happened before it.
func TestVisit(t *testing.T) {
	tests := []struct {
		name   string
		before func(*Cacher, *taker)
		want   string
	}{
		{"it has seen all before", func(c *Cacher, k *taker) { k.next = c.ring.tail.Load() - 1 }, "[ADDED a/z@4]"},
		{"nothing before is its topic's", func(*Cacher, *taker) {}, "[ADDED a/z@4]"},
		{"it was at work", func(_ *Cacher, k *taker) {
			k.mu.Lock()
			k.deliver(1)
			k.mu.Unlock()
		}, "[ADDED a/y@3 ADDED a/z@4]"},
		{"it is woken and has not run", func(_ *Cacher, k *taker) {
			k.waitsOn = newGeneration()
			close(k.waitsOn.fired)
		}, "[ADDED a/y@3 ADDED a/z@4]"},
		{"it waits on what has not been fired", func(_ *Cacher, k *taker) { k.waitsOn = newGeneration() }, "[ADDED a/z@4]"},
		{"it was left something", func(_ *Cacher, k *taker) { k.rouse() }, "[ADDED a/y@3 ADDED a/z@4]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			store := newFake()
			putPod(t, store, "a", "x", "", "")
			c := started(t, store, nil)
			k := newTaker(t, c, testPrefix, selecting(t, rvString(c.Progress()), "", ""))
			k.mu.Unlock() // as if Next waited
			putPod(t, c, "a", "y", "", "")
			last := putPod(t, c, "a", "z", "", "")
			if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
				t.Fatal(err)
			}
			tc.before(c, k)
			k.deliver(c.ring.tail.Load() - 1)
			k.check(t, tc.want, "[]")
		})
	}
}

// TestVisitMuch: a visit gives a part of much, and the rest is not lost to the next ones.
func TestVisitMuch(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	c := started(t, store, nil)
	k := newTaker(t, c, testPrefix, selecting(t, rvString(c.Progress()), "", ""))
	k.mu.Unlock()
	const events = 2*32 + 10
	var want []string
	var last storage.Row
	for i := range events {
		last = putPod(t, c, "a", "x", fmt.Sprint(i), "")
		want = append(want, describe(storage.Event{Type: storage.Modified, Row: last}))
	}
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	first := uint64(0)
	for _, taken := range []int{32, 64, events, events} {
		more := k.deliver(first).more
		first = c.ring.tail.Load() - 1
		if len(k.took) != taken || more != (taken < events) {
			t.Fatalf("%d events taken, more: %t; want %d", len(k.took), more, taken)
		}
	}
	if !reflect.DeepEqual(k.took, want) {
		t.Errorf("took %d of %d events", len(k.took), events)
	}
}

// TestQuietTopic: a watcher for whose topic nothing happens is not hurt by how much happens otherwise, whatever it is
// woken by.
func TestQuietTopic(t *testing.T) {
	rouse := func(_ *testing.T, all []*taker) {
		for _, k := range all {
			k.rouse()
		}
	}
	bookmark := func(_ *testing.T, all []*taker) { time.Sleep(all[0].cacher.config.BookmarkPeriod + time.Second) }
	tests := []struct {
		name          string
		n             int
		before, after func(*testing.T, []*taker)
	}{
		{name: "few", n: 1},
		{name: "many", n: manyTakers},
		{name: "few, a bookmark is due", n: 1, after: bookmark},
		{name: "many, a bookmark is due", n: manyTakers, after: bookmark},
		{name: "many, that have looked themselves before", n: manyTakers, before: rouse},
		{name: "many, that look themselves after", n: manyTakers, after: rouse},
		{name: "few that become many", n: manyTakers - 1, after: func(t *testing.T, all []*taker) {
			k := newTaker(t, all[0].cacher, testPrefix+"quiet/", selecting(t, rvString(all[0].cacher.Progress()), "", ""))
			go k.follow(t)
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFake()
				putPod(t, store, "quiet", "x", "", "")
				c := started(t, store, func(config *Config) { config.RingSize = 8 })
				all := newTakers(t, c, tc.n, testPrefix+"quiet/", func(opts *storage.ListOptions) { opts.Predicate.AllowWatchBookmarks = true })
				then := func(do func(*testing.T, []*taker)) {
					if do != nil {
						do(t, all)
					}
					synctest.Wait()
				}
				then(tc.before)
				for i := range 20 {
					putPod(t, c, "busy", fmt.Sprint(i), "", "")
					synctest.Wait()
				}
				then(tc.after)
				putPod(t, c, "quiet", "y", "", "")
				synctest.Wait()
				for _, k := range all {
					got := slices.DeleteFunc(append(k.took, k.returned...), func(text string) bool { return strings.HasPrefix(text, "BOOKMARK") })
					if k.err != nil || fmt.Sprint(got) != "[ADDED quiet/y@24]" {
						t.Errorf("got %v, then %v", got, k.err)
					}
				}
			})
		})
	}
}

// TestSkip: where a watcher goes on is not behind an event of its topic that it has not seen.
func TestSkip(t *testing.T) {
	var h hub
	for seq := range uint64(10) {
		h.publish([]*event{{seq: seq + 1, cur: &element{row: storage.Row{Key: "a/x"}}}})
	}
	early := h.join(topicKey{kind: prefixTopic, scope: "b/"})
	for seq := uint64(11); seq <= 40; seq++ {
		key := "a/x"
		if seq == 20 || seq == 30 {
			key = "b/x"
		}
		h.publish([]*event{{seq: seq, cur: &element{row: storage.Row{Key: key}}}})
	}
	late := h.join(topicKey{kind: prefixTopic, scope: "c/"})
	tests := []struct {
		topic      *topic
		next, want uint64
	}{
		{early, 5, 5}, // who knows what was there before the topic
		{early, 10, 10},
		{early, 11, 11},
		{early, 20, 20},
		{early, 21, 30}, {early, 29, 30}, {early, 30, 30},
		{early, 31, 41}, {early, 40, 41}, {early, 41, 41}, {early, 50, 50},
		{late, 39, 39}, {late, 40, 40}, {late, 41, 41},
	}
	for _, tc := range tests {
		if got := tc.topic.skip(tc.next, h.announced.Load()); got != tc.want {
			t.Errorf("%s from %d: %d, want %d", tc.topic.key.scope, tc.next, got, tc.want)
		}
	}
	early.watchers = 1
	w := &watcher{topic: early}
	h.leave(w)
	h.publish([]*event{{seq: 41, cur: &element{row: storage.Row{Key: "b/x"}}}, {seq: 42, cur: &element{row: storage.Row{Key: "a/x"}}}})
	if got := early.skip(41, h.announced.Load()); got != 41 {
		t.Errorf("on a topic that nobody watches any more: %d", got)
	}
}

// TestQuietTopicRaces: a watcher that looks itself just when its topic has an event, which it has not been given yet,
// is not hurt by how much happened before.
func TestQuietTopicRaces(t *testing.T) {
	for _, many := range []bool{false, true} {
		store := newFake()
		putPod(t, store, "quiet", "x", "", "")
		c := started(t, store, func(config *Config) { config.RingSize = 8 })
		k := newTaker(t, c, testPrefix+"quiet/", selecting(t, rvString(c.Progress()), "", ""))
		k.topic.many.Store(many)
		var last storage.Row
		for i := range 20 {
			last = putPod(t, c, "busy", fmt.Sprint(i), "", "")
			if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
				t.Fatal(err)
			}
		}
		last = putPod(t, c, "quiet", "y", "", "")
		if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
			t.Fatal(err)
		}
		for k.topic.latest.Load() == 0 || c.hub.announced.Load() != c.ring.tail.Load() { // what follows WaitUntil
			runtime.Gosched()
		}
		if events, err := k.Next(t.Context()); err != nil || len(events) != 1 || describe(events[0]) != "ADDED quiet/y@23" {
			t.Errorf("many %t: %v, %v", many, events, err)
		}
	}
}

// TestQuietTopicOvertaken: a watcher that is overtaken by its ring while it looks goes on where nothing of that is for it.
func TestQuietTopicOvertaken(t *testing.T) {
	store := newFake()
	putPod(t, store, "quiet", "x", "", "")
	c := started(t, store, func(config *Config) { config.RingSize = 8 })
	w := mustWatch(t, c, testPrefix+"quiet/", selecting(t, rvString(c.Progress()), "", "")).(*watcher)
	var last storage.Row
	for i := range 20 {
		last = putPod(t, c, "busy", fmt.Sprint(i), "", "")
	}
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	for c.hub.announced.Load() != c.ring.tail.Load() { // what follows WaitUntil
		runtime.Gosched()
	}
	// It has looked whether it may skip something before they came.
	if w.collect(ownBatch); w.err != nil || w.batch != nil {
		t.Fatalf("%v, %v", w.batch, w.err)
	}
	putPod(t, c, "quiet", "y", "", "")
	wantEvents(t, w, "ADDED quiet/y@23")
}

// TestManyLabels: labels and fields are found however many an object has.
func TestManyLabels(t *testing.T) {
	for _, n := range []int{0, 1, manyPairs - 1, manyPairs, 1000} {
		l, f := labels.Set{}, fields.Set{nameField: "x", "spec.nodeName": "n1"}
		for i := range n {
			l[fmt.Sprintf("l%d", i)] = fmt.Sprint(i)
			f[fmt.Sprintf("f%d", i)] = fmt.Sprint(-i)
		}
		el := newElement(storage.Row{Key: testPrefix + "a/x"}, len(testPrefix), l, f)
		for i := range n {
			if value, ok := el.label(fmt.Sprintf("l%d", i)); !ok || value != fmt.Sprint(i) {
				t.Errorf("label %d of %d: %q", i, n, value)
			}
			if value, ok := el.field(fmt.Sprintf("f%d", i)); !ok || value != fmt.Sprint(-i) {
				t.Errorf("field %d of %d: %q", i, n, value)
			}
		}
		if value, ok := el.field("spec.nodeName"); !ok || value != "n1" {
			t.Errorf("field of %d: %q", n, value)
		}
		for _, name := range []string{"", "a", "l", "zz", "spec.nodeName"} {
			if value, ok := el.label(name); ok {
				t.Errorf("label %q of %d: %q", name, n, value)
			}
		}
	}
}

// TestProgressWakesNobody: a watcher that may be told of progress is not woken by what it does not watch.
func TestProgressWakesNobody(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	c := started(t, store, nil)
	opts := selecting(t, rvString(c.Progress()), "", "")
	opts.Progress = true
	w := mustWatch(t, c, testPrefix+"a/", opts).(*watcher)
	g := w.armProgress()
	last := putPod(t, c, "b", "y", "", "")
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	if g.hasFired() {
		t.Error("woken by an event of another namespace")
	}
	if err := c.RequestWatchProgress(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !g.hasFired() {
		t.Error("not woken by the question for progress")
	}
	if events, err := w.Next(t.Context()); err != nil || len(events) != 1 || events[0].Type != storage.Bookmark {
		t.Errorf("%v, %v", events, err)
	}
}
