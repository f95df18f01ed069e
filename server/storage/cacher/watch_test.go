package cacher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/server/storage"
)

// selecting returns options for the rows below a prefix that selectors select.
func selecting(t testing.TB, rv, label, field string) storage.ListOptions {
	t.Helper()
	l, err := labels.Parse(label)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fields.ParseSelector(field)
	if err != nil {
		t.Fatal(err)
	}
	return storage.ListOptions{
		ResourceVersion: rv,
		Recursive:       true,
		Predicate:       storage.SelectionPredicate{Label: l, Field: f, GetAttrs: podAttrs},
	}
}

func rvString(rv uint64) string { return storage.FormatResourceVersion(rv) }

func mustWatch(t testing.TB, c storage.Interface, key string, opts storage.ListOptions) storage.Watcher {
	t.Helper()
	w, err := c.Watch(t.Context(), key, opts)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(w.Stop)
	return w
}

// describe spells an event as TYPE suffix@rv.
func describe(e storage.Event) string {
	text := string(e.Type)
	if e.InitialEventsEnd {
		text = "END"
	}
	if e.Type != storage.Bookmark {
		text += " " + strings.TrimPrefix(e.Row.Key, testPrefix)
		if rv := storage.MetadataString(e.Row.Value.Bytes(), "resourceVersion"); rv != rvString(e.Row.ResourceVersion) {
			text += " carrying " + rv
		}
	}
	return fmt.Sprintf("%s@%d", text, e.Row.ResourceVersion)
}

// take returns the next n events, spelled.
func take(t testing.TB, w storage.Watcher, n int) []string {
	t.Helper()
	out := takeBeside(t, w, n)
	if len(out) < n {
		t.FailNow()
	}
	return out
}

// takeBeside is take for another goroutine than the test's, which may wait for it: it returns also when it fails.
func takeBeside(t testing.TB, w storage.Watcher, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out []string
	for len(out) < n {
		events, err := w.Next(ctx)
		if err != nil {
			t.Errorf("after %v: %v", out, err)
			return out
		}
		for _, e := range events {
			out = append(out, describe(e))
		}
	}
	return out
}

func wantEvents(t testing.TB, w storage.Watcher, want ...string) {
	t.Helper()
	if got := take(t, w, len(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("events\n got %q\nwant %q", got, want)
	}
}

// wantEnd reads w to its end.
func wantEnd(t testing.TB, w storage.Watcher) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, err := w.Next(ctx); err != nil {
			return err
		}
	}
}

func putPod(t testing.TB, s storage.Interface, namespace, name, node, app string) storage.Row {
	t.Helper()
	row, err := s.GuaranteedUpdate(t.Context(), podKey(namespace, name), storage.UpdateOptions{IgnoreNotFound: true},
		func(storage.Row) ([]byte, uint64, error) { return pod(namespace, name, node, app), 0, nil })
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func removePod(t testing.TB, s storage.Interface, namespace, name string) storage.Row {
	t.Helper()
	row, err := s.Delete(t.Context(), podKey(namespace, name), storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestWatchScopesAndTransitions(t *testing.T) {
	tests := []struct {
		name         string
		key          string
		single       bool
		label, field string
		kind         topicKind
		want         []string
	}{
		{name: "all", key: testPrefix, kind: prefixTopic, want: []string{
			"ADDED a/x@2", "ADDED b/x@3", "MODIFIED a/x@4", "MODIFIED a/x@5", "ADDED a/y@6", "DELETED a/x@7", "DELETED b/x@8"}},
		{name: "namespace", key: testPrefix + "a/", kind: prefixTopic, want: []string{
			"ADDED a/x@2", "MODIFIED a/x@4", "MODIFIED a/x@5", "ADDED a/y@6", "DELETED a/x@7"}},
		{name: "one object", key: testPrefix + "a/x", single: true, kind: keyTopic, want: []string{
			"ADDED a/x@2", "MODIFIED a/x@4", "MODIFIED a/x@5", "DELETED a/x@7"}},
		{name: "by name", key: testPrefix, field: "metadata.name=x", kind: fieldTopic, want: []string{
			"ADDED a/x@2", "ADDED b/x@3", "MODIFIED a/x@4", "MODIFIED a/x@5", "DELETED a/x@7", "DELETED b/x@8"}},
		{name: "by name in a namespace", key: testPrefix + "a/", field: "metadata.name=x", kind: fieldTopic, want: []string{
			"ADDED a/x@2", "MODIFIED a/x@4", "MODIFIED a/x@5", "DELETED a/x@7"}},
		{name: "by namespace field", key: testPrefix, field: "metadata.namespace=b", kind: fieldTopic, want: []string{
			"ADDED b/x@3", "DELETED b/x@8"}},
		{name: "field entered and left", key: testPrefix, field: "spec.nodeName=n2", kind: fieldTopic, want: []string{
			"ADDED a/x@4", "DELETED a/x@5"}},
		{name: "field left", key: testPrefix, field: "spec.nodeName=n1", kind: fieldTopic, want: []string{
			"ADDED a/x@2", "ADDED b/x@3", "DELETED a/x@4", "ADDED a/y@6", "DELETED b/x@8"}},
		{name: "field unequal", key: testPrefix, field: "spec.nodeName!=n1", kind: prefixTopic, want: []string{
			"ADDED a/x@4", "MODIFIED a/x@5", "DELETED a/x@7"}},
		{name: "label equal", key: testPrefix, label: "app=two", kind: labelTopic, want: []string{
			"ADDED a/x@5", "DELETED a/x@7"}},
		{name: "label in one", key: testPrefix + "a/", label: "app in (one)", kind: labelTopic, want: []string{
			"ADDED a/x@2", "MODIFIED a/x@4", "DELETED a/x@5", "ADDED a/y@6"}},
		{name: "label in two", key: testPrefix, label: "app in (one,two),app!=three", kind: prefixTopic, want: []string{
			"ADDED a/x@2", "ADDED b/x@3", "MODIFIED a/x@4", "MODIFIED a/x@5", "ADDED a/y@6", "DELETED a/x@7", "DELETED b/x@8"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			store := newFake()
			c := newTestCacher(t, store, nil)
			opts := selecting(t, "1", tc.label, tc.field)
			opts.Recursive = !tc.single
			live := mustWatch(t, c, tc.key, opts)
			if got := live.(*watcher).topic.key.kind; got != tc.kind {
				t.Errorf("topic kind %d, want %d", got, tc.kind)
			}
			got := make(chan []string)
			go func() { got <- takeBeside(t, live, len(tc.want)) }()
			putPod(t, c, "a", "x", "n1", "one")
			putPod(t, c, "b", "x", "n1", "one")
			putPod(t, c, "a", "x", "n2", "one")
			putPod(t, c, "a", "x", "n3", "two")
			putPod(t, c, "a", "y", "n1", "one")
			removePod(t, c, "a", "x")
			last := removePod(t, c, "b", "x")
			if got := <-got; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("live events\n got %q\nwant %q", got, tc.want)
			}
			if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
				t.Fatal(err)
			}
			wantEvents(t, mustWatch(t, c, tc.key, opts), tc.want...)
		})
	}
}

func TestWatchStart(t *testing.T) {
	yes, no := true, false
	tests := []struct {
		name      string
		rv        string
		initial   *bool
		bookmarks bool
		empty     bool
		want      []string
	}{
		{name: "most recent", rv: "", want: []string{"ADDED a/x@4", "ADDED b/x@3", "ADDED c/x@5"}},
		{name: "any", rv: "0", bookmarks: true, want: []string{"ADDED a/x@4", "ADDED b/x@3", "ADDED c/x@5"}},
		{name: "no state at 0", rv: "0", initial: &no, want: []string{"ADDED c/x@5"}},
		{name: "no state", rv: "", initial: &no, want: []string{"ADDED c/x@5"}},
		{name: "state", rv: "", initial: &yes, bookmarks: true, want: []string{"ADDED a/x@4", "ADDED b/x@3", "END@4", "ADDED c/x@5"}},
		{name: "state at 0", rv: "0", initial: &yes, bookmarks: true, want: []string{"ADDED a/x@4", "ADDED b/x@3", "END@4", "ADDED c/x@5"}},
		{name: "state at least", rv: "3", initial: &yes, bookmarks: true, want: []string{"ADDED a/x@4", "ADDED b/x@3", "END@4", "ADDED c/x@5"}},
		{name: "state without bookmarks", rv: "", initial: &yes, want: []string{"ADDED a/x@4", "ADDED b/x@3", "ADDED c/x@5"}},
		{name: "state of nothing", rv: "", initial: &yes, bookmarks: true, empty: true, want: []string{"END@1", "ADDED c/x@2"}},
		{name: "after", rv: "3", want: []string{"MODIFIED a/x@4", "ADDED c/x@5"}},
		{name: "after the last", rv: "4", want: []string{"ADDED c/x@5"}},
		{name: "future", rv: "5", want: []string{"MODIFIED c/x@6"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			store := newFake()
			c := newTestCacher(t, store, nil)
			if err := c.WaitUntil(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if !tc.empty {
				putPod(t, c, "a", "x", "", "")
				putPod(t, c, "b", "x", "", "")
				row := putPod(t, c, "a", "x", "n", "")
				if err := c.WaitUntil(t.Context(), row.ResourceVersion); err != nil {
					t.Fatal(err)
				}
			}
			opts := selecting(t, tc.rv, "", "")
			opts.SendInitialEvents = tc.initial
			opts.Predicate.AllowWatchBookmarks = tc.bookmarks
			w := mustWatch(t, c, testPrefix, opts)
			putPod(t, c, "c", "x", "", "")
			putPod(t, c, "c", "x", "n", "")
			wantEvents(t, &oneByOne{Watcher: w}, tc.want...)
		})
	}
}

// oneByOne gives events one at a time.
type oneByOne struct {
	storage.Watcher
	rest []storage.Event
}

func (w *oneByOne) Next(ctx context.Context) ([]storage.Event, error) {
	if len(w.rest) == 0 {
		events, err := w.Watcher.Next(ctx)
		if err != nil {
			return nil, err
		}
		w.rest = append(w.rest, events...)
	}
	one := w.rest[:1]
	w.rest = w.rest[1:]
	return one, nil
}

func TestWatchTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		c := newTestCacher(t, store, nil)
		yes := true
		opts := selecting(t, "100", "", "")
		opts.SendInitialEvents = &yes
		started := time.Now()
		_, err := c.Watch(t.Context(), testPrefix, opts)
		if storage.CodeOf(err) != storage.ErrCodeResourceVersionTooLarge {
			t.Errorf("error %v", err)
		}
		if waited := time.Since(started); waited != DefaultFreshTimeout {
			t.Errorf("waited %v", waited)
		}
		c.Stop()
	})
}

func TestWatchTooOld(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "", "")
	putPod(t, store, "a", "x", "n", "")
	store.compact()
	c := newTestCacher(t, store, nil)
	w := mustWatch(t, c, testPrefix, selecting(t, "2", "", ""))
	if err := wantEnd(t, w); storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("error %v", err)
	}
	if err := wantEnd(t, w); storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("second error %v", err)
	}
}

func TestRingOverflow(t *testing.T) {
	store := newFake()
	c := newTestCacher(t, store, func(config *Config) { config.RingSize = 8 })
	slow := mustWatch(t, c, testPrefix, selecting(t, "1", "", ""))
	idle := mustWatch(t, c, testPrefix+"quiet/", selecting(t, "1", "", ""))
	events := make(chan []string)
	go func() { events <- takeBeside(t, idle, 1) }()
	idleTopic := idle.(*watcher).topic
	for g := idleTopic.current.Load(); g == nil || !g.armed.Load(); g = idleTopic.current.Load() {
		runtime.Gosched()
	}
	for i := range 20 {
		row := putPod(t, c, "a", fmt.Sprint(i), "", "")
		if err := c.WaitUntil(t.Context(), row.ResourceVersion); err != nil {
			t.Fatal(err)
		}
	}
	if err := wantEnd(t, slow); !errors.Is(err, io.EOF) {
		t.Errorf("slow watcher: %v", err)
	}
	// A watcher that waits for its own events is not hurt by those of others.
	putPod(t, c, "quiet", "x", "", "")
	if got := <-events; !reflect.DeepEqual(got, []string{"ADDED quiet/x@22"}) {
		t.Errorf("idle watcher: %q", got)
	}
	wantEvents(t, &oneByOne{Watcher: mustWatch(t, c, testPrefix, selecting(t, "12", "", ""))}, "ADDED a/11@13", "ADDED a/12@14", "ADDED a/13@15")
	store.compact()
	if err := wantEnd(t, mustWatch(t, c, testPrefix, selecting(t, "13", "", ""))); storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("resume before the ring: %v", err)
	}
	wantEvents(t, mustWatch(t, c, testPrefix+"quiet/", selecting(t, "14", "", "")), "ADDED quiet/x@22")
}

func TestRingGrowsAndShrinks(t *testing.T) {
	var r ring
	r.init(8, 64, DefaultRingBytes)
	var now time.Duration
	add := func(n int) {
		for range n {
			r.append(&event{rv: r.next + 100, at: int64(now)})
			r.publish()
		}
	}
	size := func() int { return len(r.slots.Load().at) }
	check := func(wantSize int) {
		t.Helper()
		if size() != wantSize {
			t.Errorf("capacity %d, want %d", size(), wantSize)
		}
		for seq := r.head; seq < r.next; seq++ {
			if e := r.get(seq); e == nil || e.rv != seq+100 {
				t.Fatalf("event %d is %v", seq, e)
			}
		}
		if r.head > 1 && (r.get(r.head-1) != nil || r.floor.Load() != r.head-1+100) {
			t.Errorf("floor %d, head %d", r.floor.Load(), r.head)
		}
		if got := r.after(r.next - 3 + 100); got != r.next-2 {
			t.Errorf("after: %d, want %d", got, r.next-2)
		}
	}
	add(8)
	check(8)
	add(1)
	check(16)
	add(200)
	check(64)
	now += 2 * ringFreshness
	add(1)
	check(32)
	add(2)
	check(8)
	add(100)
	check(64)
}

func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		c := newTestCacher(t, store, nil)
		opts := selecting(t, "1", "", "")
		opts.Predicate.AllowWatchBookmarks = true
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		w, err := c.Watch(ctx, testPrefix, opts)
		if err != nil {
			t.Fatal(err)
		}
		store.skip(10)
		started := time.Now()
		wantBookmark := func(want string, from, to time.Duration) {
			t.Helper()
			events, err := w.Next(t.Context())
			if err != nil || len(events) != 1 || describe(events[0]) != want {
				t.Fatalf("got %v, %v, want %s", events, err, want)
			}
			if after := time.Since(started); after < from || after > to {
				t.Errorf("bookmark after %v", after)
			}
		}
		wantBookmark("BOOKMARK@11", 54*time.Second, time.Minute)
		store.skip(10)
		wantBookmark("BOOKMARK@21", 108*time.Second, 2*time.Minute)
		wantBookmark("BOOKMARK@21", 162*time.Second, 178*time.Second)
		w.Stop()

		// A future revision gets no bookmark below itself.
		opts.ResourceVersion = "100"
		w, err = c.Watch(t.Context(), testPrefix, opts)
		if err != nil {
			t.Fatal(err)
		}
		short, cancelShort := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancelShort()
		if events, err := w.Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v", events, err)
		}
		store.skip(200)
		events, err := w.Next(t.Context())
		if err != nil || len(events) != 1 || describe(events[0]) != "BOOKMARK@221" {
			t.Errorf("got %v, %v", events, err)
		}
		w.Stop()
		c.Stop()
	})
}

func TestBookmarkBeforeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCacher(t, newFake(), nil)
		opts := selecting(t, "1", "", "")
		opts.Predicate.AllowWatchBookmarks = true
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		w, err := c.Watch(ctx, testPrefix, opts)
		if err != nil {
			t.Fatal(err)
		}
		if events, err := w.Next(ctx); err != nil || describe(events[0]) != "BOOKMARK@1" || time.Since(started) != 28*time.Second {
			t.Errorf("got %v, %v after %v", events, err, time.Since(started))
		}
		c.Stop()
	})
}

func TestWatchEnds(t *testing.T) {
	store := newFake()
	c := newTestCacher(t, store, nil)
	before := runtime.NumGoroutine()
	tests := []struct {
		name string
		end  func(w storage.Watcher, cancelWatch context.CancelFunc)
	}{
		{"stop of the watcher", func(w storage.Watcher, _ context.CancelFunc) { w.Stop(); w.Stop() }},
		{"end of the context", func(_ storage.Watcher, cancel context.CancelFunc) { cancel() }},
		{"stop of the cacher", func(storage.Watcher, context.CancelFunc) { c.Stop() }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := c.Watch(ctx, testPrefix, selecting(t, "1", "", ""))
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			go func() { ended <- wantEnd(t, w) }()
			tc.end(w, cancel)
			if err := <-ended; !errors.Is(err, io.EOF) {
				t.Errorf("error %v", err)
			}
			if n := len(c.hub.topics); n != 0 {
				t.Errorf("%d topics left", n)
			}
		})
	}
	if _, err := c.Watch(t.Context(), testPrefix, selecting(t, "1", "", "")); storage.CodeOf(err) != storage.ErrCodeNotReady {
		t.Errorf("watch after stop: %v", err)
	}
	if _, err := c.GetList(t.Context(), testPrefix, selecting(t, "", "", "")); err != nil {
		t.Errorf("list after stop: %v", err)
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before the cacher started", n, before)
	}
	if store.watches != 0 {
		t.Errorf("%d watches of the storage left", store.watches)
	}
}

// TestManyWatchers: an event wakes only those that it may concern.
func TestManyWatchers(t *testing.T) {
	store := newFake()
	c := newTestCacher(t, store, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const watchers = 10000
	var wg sync.WaitGroup
	got := make(chan string, watchers)
	for i := range watchers {
		opts := selecting(t, "1", "", fmt.Sprintf("spec.nodeName=n%d", i))
		w := mustWatch(t, c, testPrefix, opts)
		wg.Go(func() {
			for {
				events, err := w.Next(ctx)
				if err != nil {
					return
				}
				for _, e := range events {
					got <- fmt.Sprintf("%d %s", i, describe(e))
				}
			}
		})
	}
	putPod(t, c, "a", "x", "n7", "")
	putPod(t, c, "a", "x", "n9999", "")
	seen := map[string]bool{<-got: true, <-got: true, <-got: true}
	for _, want := range []string{"7 ADDED a/x@2", "7 DELETED a/x@3", "9999 ADDED a/x@3"} {
		if !seen[want] {
			t.Errorf("missing %q in %v", want, seen)
		}
	}
	cancel()
	wg.Wait()
	if len(got) != 0 {
		t.Errorf("unexpected event %q", <-got)
	}
}

// TestBatchBytes: what a watcher holds whose client takes nothing is bounded in bytes, be it of the initial state or not. An
// object that is larger comes all the same.
func TestBatchBytes(t *testing.T) {
	const objects, size = 20, maxBatchBytes / 4
	store := newFake()
	putPod(t, store, "a", "first", "", "")
	c := started(t, store, nil)
	if err := c.WaitUntil(t.Context(), store.rv); err != nil {
		t.Fatal(err)
	}
	later := mustWatch(t, c, testPrefix, selecting(t, rvString(store.rv), "", ""))
	for i := range objects {
		putPod(t, store, "a", fmt.Sprint("p", i), strings.Repeat("x", size), "")
	}
	putPod(t, store, "a", "q", strings.Repeat("x", 2*maxBatchBytes), "")
	if err := c.WaitUntil(t.Context(), store.rv); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]storage.Watcher{"initial": mustWatch(t, c, testPrefix, selecting(t, "0", "", "")), "events": later} {
		for seen := 0; seen < objects+1; {
			events, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			bytes := 0 // but for the last
			for i, e := range events {
				n := e.Row.Value.Len()
				if n > size {
					seen++
				}
				if i+1 < len(events) {
					bytes += n
				}
			}
			if bytes >= maxBatchBytes {
				t.Errorf("%s: %d objects of which all but the last have %d bytes", name, len(events), bytes)
			}
		}
		w.Stop()
	}
}
