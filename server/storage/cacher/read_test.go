package cacher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// started returns a cacher that is filled and follows store.
func started(t testing.TB, store *fake, change func(*Config)) *Cacher {
	t.Helper()
	c := newTestCacher(t, store, change)
	connect(t, c)
	return c
}

// connect waits until c follows its storage.
func connect(t testing.TB, c *Cacher) {
	t.Helper()
	if err := c.WaitUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for !c.fresh() {
		runtime.Gosched()
	}
}

func suffixes(rows []storage.Row) []string {
	out := []string{}
	for _, row := range rows {
		out = append(out, fmt.Sprintf("%s@%d", strings.TrimPrefix(row.Key, testPrefix), row.ResourceVersion))
	}
	return out
}

// counted returns what a counter has counted.
func counted(t testing.TB, c counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.find().Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func mustList(t testing.TB, c storage.Interface, key string, opts storage.ListOptions) storage.List {
	t.Helper()
	list, err := c.GetList(t.Context(), key, opts)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return list
}

func TestListsAndPages(t *testing.T) { synctest.Test(t, testListsAndPages) }

func testListsAndPages(t *testing.T) {
	store := newFake()
	for i := range 10 {
		putPod(t, store, "a", fmt.Sprint(i), "n"+fmt.Sprint(i%2), "") // 2…11
	}
	putPod(t, store, "b", "0", "n0", "") // 12
	c := started(t, store, nil)
	lists := store.lists

	opts := selecting(t, "", "", "")
	opts.Predicate.Limit = 4
	first := mustList(t, c, testPrefix+"a/", opts)
	if got, want := suffixes(first.Rows), []string{"a/0@2", "a/1@3", "a/2@4", "a/3@5"}; !reflect.DeepEqual(got, want) {
		t.Errorf("first page %v", got)
	}
	if first.RemainingItemCount == nil || *first.RemainingItemCount != 6 || first.ResourceVersion != 12 {
		t.Errorf("first page: remaining %v at %d", first.RemainingItemCount, first.ResourceVersion)
	}
	// What happens in between does not show.
	removePod(t, c, "a", "5")
	putPod(t, c, "a", "55", "", "")
	last := putPod(t, c, "a", "6", "", "")
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	opts.Predicate.Continue = first.Continue
	second := mustList(t, c, testPrefix+"a/", opts)
	if got, want := suffixes(second.Rows), []string{"a/4@6", "a/5@7", "a/6@8", "a/7@9"}; !reflect.DeepEqual(got, want) {
		t.Errorf("second page %v", got)
	}
	if second.RemainingItemCount == nil || *second.RemainingItemCount != 2 || second.ResourceVersion != 12 {
		t.Errorf("second page: remaining %v at %d", second.RemainingItemCount, second.ResourceVersion)
	}
	opts.Predicate.Continue = second.Continue
	third := mustList(t, c, testPrefix+"a/", opts)
	if got, want := suffixes(third.Rows), []string{"a/8@10", "a/9@11"}; !reflect.DeepEqual(got, want) || third.Continue != "" || third.RemainingItemCount != nil {
		t.Errorf("third page %v, continue %q, remaining %v", got, third.Continue, third.RemainingItemCount)
	}

	// Any state: the limit is ignored.
	opts = selecting(t, "0", "", "")
	opts.Predicate.Limit = 1
	if list := mustList(t, c, testPrefix, opts); len(list.Rows) != 11 || list.Continue != "" {
		t.Errorf("any: %v", suffixes(list.Rows))
	}
	// Selectors: no remaining count.
	opts = selecting(t, "", "", "spec.nodeName=n1")
	opts.Predicate.Limit = 2
	if list := mustList(t, c, testPrefix, opts); len(list.Rows) != 2 || list.Continue == "" || list.RemainingItemCount != nil {
		t.Errorf("selected: %v %q %v", suffixes(list.Rows), list.Continue, list.RemainingItemCount)
	}
	if list := mustList(t, c, testPrefix+"none/", selecting(t, "", "", "")); list.Rows == nil || len(list.Rows) != 0 {
		t.Errorf("none: %v", list.Rows)
	}
	if store.lists != lists {
		t.Errorf("%d lists went to the storage", store.lists-lists)
	}
}

// TestExactLists compares exact reads, rebuilt from the ring, with a replay of all events.
func TestExactLists(t *testing.T) { synctest.Test(t, testExactLists) }

func testExactLists(t *testing.T) {
	store := newFake()
	c := started(t, store, nil)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		name := fmt.Sprint(random.IntN(20))
		if _, ok := store.rows[podKey("a", name)]; ok && random.IntN(3) == 0 {
			removePod(t, c, "a", name)
		} else {
			putPod(t, c, "a", name, fmt.Sprint(random.IntN(3)), "")
		}
	}
	if err := c.WaitUntil(t.Context(), store.rv); err != nil {
		t.Fatal(err)
	}
	lists := store.lists
	for range 200 {
		rv := 1 + random.Uint64N(store.rv)
		opts := selecting(t, rvString(rv), "", "")
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
		got := mustList(t, c, testPrefix, opts)
		store.lists--
		want := mustList(t, store, testPrefix, opts)
		if !reflect.DeepEqual(suffixes(got.Rows), suffixes(want.Rows)) || got.ResourceVersion != rv {
			t.Fatalf("at %d (got %d)\n got %v\nwant %v", rv, got.ResourceVersion, suffixes(got.Rows), suffixes(want.Rows))
		}
	}
	if store.lists != lists {
		t.Errorf("%d lists went to the storage", store.lists-lists)
	}
	c.Compact(100)
	opts := selecting(t, "50", "", "")
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	mustList(t, c, testPrefix, opts)
	if store.lists != lists+1 {
		t.Error("an exact list before the compaction did not go to the storage")
	}
}

// A Get waits for the cache for no more than getWait, which is little on a machine that is busy.
func TestGetFreshness(t *testing.T) { synctest.Test(t, testGetFreshness) }

func testGetFreshness(t *testing.T) {
	store := newFake()
	old := putPod(t, store, "a", "x", "n1", "")
	reg := prometheus.NewRegistry()
	c := started(t, store, func(config *Config) { config.Metrics = NewMetrics(reg) })

	get := func(rv string) storage.Row {
		t.Helper()
		row, err := c.Get(t.Context(), podKey("a", "x"), storage.GetOptions{ResourceVersion: rv, IgnoreNotFound: true})
		if err != nil {
			t.Fatalf("get at %q: %v", rv, err)
		}
		return row
	}
	// The watch is held back: the cache knows only what is there.
	store.do(func() { store.silent = true })
	written := putPod(t, c, "a", "x", "n2", "")
	if row := get("0"); row.ResourceVersion != old.ResourceVersion {
		t.Errorf("any: %+v", row)
	}
	if row := get(""); row.ResourceVersion != written.ResourceVersion || store.gets != 0 {
		t.Errorf("own write: %+v after %d gets of the storage", row, store.gets)
	}
	if row := get(rvString(written.ResourceVersion)); row.ResourceVersion != written.ResourceVersion || store.gets != 0 {
		t.Errorf("at least own write: %+v after %d gets of the storage", row, store.gets)
	}
	// The own write serves as the guess of the next update.
	if guess := c.guess(podKey("a", "x")); guess.ResourceVersion != written.ResourceVersion {
		t.Errorf("guess %+v", guess)
	}
	// A foreign write came last: the own one proves nothing.
	foreign := putPod(t, store, "a", "x", "n3", "")
	if row := get(""); row.ResourceVersion != foreign.ResourceVersion || store.gets != 1 {
		t.Errorf("foreign write: %+v after %d gets of the storage", row, store.gets)
	}
	deleted := removePod(t, c, "a", "x")
	if row := get(""); !row.Value.IsZero() || store.gets != 1 {
		t.Errorf("own delete: %+v after %d gets of the storage", row, store.gets)
	}
	store.do(func() { store.silent = false })
	if err := c.WaitUntil(t.Context(), deleted.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	if n := c.pending.size.Load(); n != 0 {
		t.Errorf("%d rows are still pending", n)
	}
	// Other resources advance the revision: one progress request closes the gap.
	store.skip(5)
	if row := get(""); !row.Value.IsZero() || store.gets != 1 || c.Progress() != deleted.ResourceVersion+5 {
		t.Errorf("after progress: %+v, %d gets, at %d", row, store.gets, c.Progress())
	}
	_, err := c.Get(t.Context(), podKey("a", "x"), storage.GetOptions{})
	if !storage.IsNotFound(err) {
		t.Errorf("missing: %v", err)
	}
	if n := counted(t, c.metrics.readFresh); n != 4 {
		t.Errorf("%v fresh reads, want 4", n)
	}
	if n := counted(t, c.metrics.readFellBack); n != 1 {
		t.Errorf("%v reads fell back, want 1", n)
	}
}

func TestOwnWrites(t *testing.T) { synctest.Test(t, testOwnWrites) }

func testOwnWrites(t *testing.T) {
	store := newFake()
	old := putPod(t, store, "a", "x", "n1", "")
	c := started(t, store, nil)
	get := func() storage.Row {
		t.Helper()
		row, err := c.Get(storage.WithOwnWrites(t.Context()), podKey("a", "x"), storage.GetOptions{IgnoreNotFound: true})
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	asked := store.current
	// Other resources advance the revision, and nobody needs to know.
	store.skip(5)
	if row := get(); row.ResourceVersion != old.ResourceVersion || store.gets != 0 {
		t.Errorf("cached: %+v after %d gets of the storage", row, store.gets)
	}
	// The watch is held back: the cache knows only what is there.
	store.do(func() { store.silent = true })
	putPod(t, store, "a", "x", "n2", "")
	if row := get(); row.ResourceVersion != old.ResourceVersion || store.gets != 0 {
		t.Errorf("foreign write: %+v after %d gets of the storage", row, store.gets)
	}
	for i, write := range []func() uint64{
		func() uint64 { return putPod(t, c, "a", "x", "n3", "").ResourceVersion },
		func() uint64 { removePod(t, c, "a", "x"); return 0 },
		func() uint64 { return putPod(t, c, "a", "x", "n4", "").ResourceVersion },
	} {
		want := write()
		if row := get(); row.Value.IsZero() != (want == 0) || want != 0 && row.ResourceVersion != want || store.gets != i+1 {
			t.Errorf("own write %d: %+v after %d gets of the storage", i, row, store.gets)
		}
	}
	// More writes than are remembered as rows.
	for i := range maxPending {
		putPod(t, c, "b", fmt.Sprint(i), "n1", "")
	}
	last := putPod(t, c, "a", "x", "n5", "")
	if row := get(); row.ResourceVersion != last.ResourceVersion {
		t.Errorf("own write after many: %+v", row)
	}
	store.do(func() { store.silent = false })
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	gets := store.gets
	if row := get(); row.ResourceVersion != last.ResourceVersion || store.gets != gets {
		t.Errorf("after the event: %+v after %d gets of the storage", row, store.gets-gets)
	}
	if store.current != asked {
		t.Errorf("the storage was asked for its revision %d times", store.current-asked)
	}
}

func TestFutureReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		c := newTestCacher(t, store, nil)
		if err := c.WaitUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		begin := time.Now()
		_, err := c.Get(t.Context(), podKey("a", "x"), storage.GetOptions{ResourceVersion: "9"})
		if storage.CodeOf(err) != storage.ErrCodeResourceVersionTooLarge || time.Since(begin) != DefaultFreshTimeout {
			t.Errorf("get: %v after %v", err, time.Since(begin))
		}
		for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan} {
			opts := selecting(t, "9", "", "")
			opts.ResourceVersionMatch = match
			if _, err := c.GetList(t.Context(), testPrefix, opts); storage.CodeOf(err) != storage.ErrCodeResourceVersionTooLarge {
				t.Errorf("list %q: %v", match, err)
			}
		}
		// It comes in time.
		go func() {
			time.Sleep(time.Second)
			store.skip(8)
		}()
		if list := mustList(t, c, testPrefix, selecting(t, "9", "", "")); list.ResourceVersion != 9 {
			t.Errorf("list at %d", list.ResourceVersion)
		}
		// A consistent list that the cache cannot serve in time comes from the storage.
		store.do(func() { store.silent = true })
		putPod(t, store, "a", "x", "", "")
		lists := store.lists
		if list := mustList(t, c, testPrefix, selecting(t, "", "", "")); len(list.Rows) != 1 || store.lists != lists+1 {
			t.Errorf("list %v, %d lists", suffixes(list.Rows), store.lists-lists)
		}
		c.Stop()
	})
}

func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		store.listErr = &storage.Error{Code: storage.ErrCodeTimeout}
		c := newTestCacher(t, store, nil)
		if err := c.ReadinessCheck(); err != nil {
			t.Errorf("unused: %v", err)
		}
		if _, err := c.Get(t.Context(), podKey("a", "x"), storage.GetOptions{ResourceVersion: "0"}); err != nil {
			t.Errorf("get: %v", err)
		}
		if err := c.ReadinessCheck(); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("readiness: %v", err)
		}
		opts := selecting(t, "", "", "")
		opts.Predicate.Limit = 1
		if _, err := c.GetList(t.Context(), testPrefix, opts); storage.CodeOf(err) != storage.ErrCodeTimeout {
			t.Errorf("list with a limit did not go to the storage: %v", err)
		}
		begin := time.Now()
		if _, err := c.GetList(t.Context(), testPrefix, selecting(t, "0", "", "")); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("list: %v", err)
		}
		if time.Since(begin) != DefaultReadyTimeout {
			t.Errorf("list waited %v", time.Since(begin))
		}
		if _, err := c.Watch(t.Context(), testPrefix, selecting(t, "0", "", "")); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("watch: %v", err)
		}
		store.do(func() { store.listErr = &storage.Error{Code: storage.ErrCodeUnreachable} })
		time.Sleep(longestBackoff)
		begin = time.Now()
		if _, err := c.GetList(t.Context(), testPrefix, selecting(t, "0", "", "")); storage.CodeOf(err) != storage.ErrCodeUnreachable {
			t.Errorf("list of an unreachable storage: %v", err)
		}
		if time.Since(begin) != unreachableWait {
			t.Errorf("list waited %v for an unreachable storage", time.Since(begin))
		}
		store.do(func() { store.listErr = &storage.Error{Code: storage.ErrCodeTimeout} })
		time.Sleep(longestBackoff)
		go func() {
			time.Sleep(time.Second)
			store.do(func() { store.listErr = nil })
		}()
		if list := mustList(t, c, testPrefix, selecting(t, "0", "", "")); len(list.Rows) != 1 {
			t.Errorf("list %v", suffixes(list.Rows))
		}
		if err := c.ReadinessCheck(); err != nil {
			t.Errorf("readiness: %v", err)
		}
		c.Stop()
	})
}

// TestFlights: calls share a question only if it is asked after them.
func TestFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		c := newTestCacher(t, store, nil)
		gate := make(chan struct{})
		store.block = gate
		var wg sync.WaitGroup
		ask := func(want uint64) {
			wg.Go(func() {
				if rv, err := c.GetCurrentResourceVersion(t.Context()); err != nil || rv < want {
					t.Errorf("got %d, %v, want %d", rv, err, want)
				}
			})
			synctest.Wait()
		}
		ask(1)
		store.skip(1)
		for range 10 {
			ask(2)
		}
		if store.current != 1 {
			t.Errorf("%d questions before the first answer", store.current)
		}
		close(gate)
		wg.Wait()
		if store.current != 2 {
			t.Errorf("%d questions, want 2", store.current)
		}
		c.Stop()
	})
}

func TestCheck(t *testing.T) {
	store := newFake()
	for i := range 5 {
		putPod(t, store, "a", fmt.Sprint(i), "", "")
	}
	c := started(t, store, nil)
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("equal: %v", err)
	}
	c.mu.Lock()
	el := *c.rows.get("a/1")
	el.row.Value = storage.NewText([]byte(strings.Replace(el.row.Value.String(), "Pod", "Pot", 1)))
	c.rows.set("a/1", &el)
	c.rows.set("a/2", nil)
	c.rows.set("a/9", &element{row: storage.Row{Key: podKey("a", "9")}, base: el.base})
	c.frozen = nil
	c.mu.Unlock()
	err := c.Check(t.Context())
	if !errors.Is(err, ErrInconsistent) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{`"/registry/pods/a/1" is cached with other bytes`, `"/registry/pods/a/2" is not cached`, `"/registry/pods/a/9" is not stored`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %s", err, want)
		}
	}
	if n := counted(t, c.metrics.checkFailure); n != 1 {
		t.Errorf("%v failures counted", n)
	}
}
