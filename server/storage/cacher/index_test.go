package cacher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	clocktesting "k8s.io/utils/clock/testing"

	"weir.dev/weir/server/storage"
)

// sparseAttrs is podAttrs without what is empty.
func sparseAttrs(value []byte) (labels.Set, fields.Set, error) {
	l, f, err := podAttrs(value)
	if l["app"] == "" {
		delete(l, "app")
	}
	if f["spec.nodeName"] == "" {
		delete(f, "spec.nodeName")
	}
	return l, f, err
}

var (
	nodeIndex = indexKey{name: "spec.nodeName"}
	appIndex  = indexKey{label: true, name: "app"}
)

// indexNames returns the indexes that c has.
func indexNames(c *Cacher) (names []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, x := range c.rows.indexes {
		names = append(names, x.key.name)
	}
	return names
}

// TestIndexDifferential compares whole answers with those of a cacher without indexes, over a random history with states
// of the past, pages that go on while others write, and refills.
func TestIndexDifferential(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { indexDifferential(t, seed) })
		})
	}
}

func indexDifferential(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	store := newFake()
	sparse := func(config *Config) { config.GetAttrs = sparseAttrs; config.Logger = nil }
	putPod(t, store, "a", "0", "n1", "one")
	with, plain := started(t, store, sparse), started(t, store, sparse)
	level := func() {
		t.Helper()
		for _, c := range []*Cacher{with, plain} {
			if err := c.WaitUntil(t.Context(), store.rv); err != nil {
				t.Fatal(err)
			}
			for !c.fresh() {
				time.Sleep(time.Millisecond)
			}
		}
	}
	write := func() {
		t.Helper()
		namespace, name := string("abc"[random.IntN(3)]), fmt.Sprint(random.IntN(25))
		if _, ok := store.rows[podKey(namespace, name)]; ok && random.IntN(3) == 0 {
			removePod(t, store, namespace, name)
			return
		}
		putPod(t, store, namespace, name, []string{"", "n1", "n2", "n10"}[random.IntN(4)], []string{"", "one", "two"}[random.IntN(3)])
	}
	level()
	with.addIndex(nodeIndex)
	with.addIndex(appIndex)
	selectors := []struct{ label, field string }{
		{field: "spec.nodeName=n1"},
		{field: "spec.nodeName="},
		{field: "spec.nodeName=none"},
		{field: "spec.nodeName!=n1"},
		{label: "app=one"},
		{label: "app="},
		{label: "app in (two)"},
		{label: "app in (one,two)"},
		{label: "app!=one"},
		{label: "app=two", field: "spec.nodeName==n10"},
		{label: "app=two", field: "spec.nodeName=n2,metadata.name=7"},
		{label: "app=two,app!=one", field: "metadata.namespace=b"},
	}
	type walk struct {
		key  string
		opts storage.ListOptions
	}
	var walks []walk
	list := func(key string, opts storage.ListOptions) {
		t.Helper()
		got, want := mustList(t, with, key, opts), mustList(t, plain, key, opts)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s %s %s at %q limit %d continue %q:\n got %v %q\nwant %v %q", key, opts.Predicate.Label, opts.Predicate.Field, opts.ResourceVersion,
				opts.Predicate.Limit, opts.Predicate.Continue, suffixes(got.Rows), got.Continue, suffixes(want.Rows), want.Continue)
		}
		if got.Continue != "" {
			opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
			opts.Predicate.Continue = got.Continue
			walks = append(walks, walk{key, opts})
		}
	}
	options := func() (string, storage.ListOptions) {
		s := selectors[random.IntN(len(selectors))]
		opts := selecting(t, "", s.label, s.field)
		opts.Predicate.GetAttrs = sparseAttrs
		opts.Predicate.Limit = random.Int64N(5)
		return []string{testPrefix, testPrefix + "a/", testPrefix + "b/"}[random.IntN(3)], opts
	}
	for range 1200 {
		switch what := random.IntN(100); {
		case what < 50:
			write()
		case what < 65:
			level()
			list(options())
		case what < 75: // of the past
			level()
			floor := max(with.ring.floor.Load(), plain.ring.floor.Load())
			key, opts := options()
			opts.ResourceVersion = rvString(floor + random.Uint64N(store.rv-floor+1))
			opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
			list(key, opts)
		case what < 93: // the next page of some walk
			if len(walks) > 0 {
				i := random.IntN(len(walks))
				w := walks[i]
				walks = slices.Delete(walks, i, i+1)
				list(w.key, w.opts)
			}
		case what < 96: // the initial state of a watch
			level()
			key, opts := options()
			opts.Predicate.Limit = 0
			want := []string{}
			for _, row := range mustList(t, plain, key, opts).Rows {
				want = append(want, fmt.Sprintf("ADDED %s@%d", strings.TrimPrefix(row.Key, testPrefix), row.ResourceVersion))
			}
			all := true
			opts.ResourceVersion, opts.SendInitialEvents, opts.Predicate.AllowWatchBookmarks = "0", &all, true
			w := mustWatch(t, with, key, opts)
			wantEvents(t, &oneByOne{Watcher: w}, append(want, fmt.Sprintf("END@%d", store.rv))...)
			w.Stop()
		case what < 98: // what happened is not known: the rows are listed again
			store.do(func() { store.silent = true })
			write()
			putPod(t, store, "a", "x", "n1", "one")
			putPod(t, store, "a", "x", "n2", "two")
			store.compact()
			store.do(func() { store.silent = false })
			walks = nil // the storage does not know their states any more
			level()
			for _, c := range []*Cacher{with, plain} {
				c.kept.clear()
			}
		case what < 99:
			with.distrust(errors.New("test"))
			walks = nil
			for !with.fresh() || with.suspect.Load() {
				time.Sleep(time.Millisecond)
			}
			level()
		default: // an index goes, and comes while others write
			with.mu.Lock()
			with.rows.indexes = with.rows.indexes[:len(with.rows.indexes)/2]
			with.mu.Unlock()
			var writing sync.WaitGroup
			writing.Go(func() {
				for i := range 20 {
					putPod(t, store, "b", fmt.Sprint(i), "n1", "two")
				}
			})
			with.addIndex(nodeIndex)
			with.addIndex(appIndex)
			writing.Wait()
		}
	}
	level()
	with.addIndex(nodeIndex) // unless they are there
	with.addIndex(appIndex)
	if got := indexNames(with); len(got) != 2 || len(indexNames(plain)) != 0 {
		t.Fatalf("indexes %v and %v", got, indexNames(plain))
	}
	if differences := with.compareIndexes(); differences != nil {
		t.Error(errors.Join(differences...))
	}
}

// TestIndexIsBuilt: an index is there when it pays, is kept through a refill, and goes when nobody uses it.
func TestIndexIsBuilt(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	store := newFake()
	for i := range 2000 {
		putPod(t, store, "a", fmt.Sprintf("%04d", i), fmt.Sprintf("n%d", i%100), fmt.Sprintf("app%d", i%2))
	}
	store.log = nil
	c := started(t, store, func(config *Config) { config.Clock = clock; config.Logger = nil })
	list := func(rows int, label, field string) {
		t.Helper()
		if list := mustList(t, c, testPrefix, selecting(t, "0", label, field)); len(list.Rows) != rows {
			t.Fatalf("%d rows", len(list.Rows))
		}
	}
	want := func(names ...string) {
		t.Helper()
		if got := indexNames(c); !slices.Equal(got, names) {
			t.Fatalf("indexes %v, want %v", got, names)
		}
	}
	looked := func(index string) float64 {
		t.Helper()
		_, read := c.metrics.list.indexed(index)
		var m dto.Metric
		if err := read.find().Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	list(20, "", "spec.nodeName=n7")
	list(0, "", "spec.nodeName=none")
	list(1980, "", "spec.nodeName!=n7")
	list(1, "", "metadata.name=0007")
	list(1, "", "metadata.name=0007")
	list(1, "", "metadata.name=0007")
	list(1, "", "metadata.name=0007")
	want()
	clock.Step(indexAge + time.Second)
	list(20, "", "spec.nodeName=n7") // what was long ago does not count
	list(20, "", "spec.nodeName=n8")
	list(20, "", "spec.nodeName=n9")
	want()
	list(20, "", "spec.nodeName=n10")
	want("spec.nodeName")
	before := looked("f:spec.nodeName")
	list(20, "", "spec.nodeName=n7")
	if n := looked("f:spec.nodeName") - before; n != 20 {
		t.Errorf("%v rows looked at", n)
	}
	// Among several indexes the one with the least to look at serves.
	for range 7 {
		list(1000, "app=app1", "")
	}
	want("spec.nodeName", "app")
	before = looked("f:spec.nodeName")
	list(20, "app=app1", "spec.nodeName=n7")
	if n := looked("f:spec.nodeName") - before; n != 20 {
		t.Errorf("%v rows looked at", n)
	}

	c.distrust(errors.New("test"))
	for !c.fresh() || c.suspect.Load() {
		runtime.Gosched()
	}
	want("spec.nodeName", "app")
	list(20, "", "spec.nodeName=n7")

	clock.Step(indexAge)
	list(1000, "app=app0", "")
	clock.Step(time.Second)
	last := putPod(t, store, "a", "0007", "n7", "app1")
	if err := c.WaitUntil(t.Context(), last.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	want("app")
}

// TestIndexesAreBounded: names that clients make up do not become indexes without end.
func TestIndexesAreBounded(t *testing.T) {
	c, _ := benchCacher(t, 1000)
	for i := range 3 * maxWanted {
		opts := selecting(t, "0", fmt.Sprintf("label%d=x", i), "")
		for range 4 {
			mustList(t, c, testPrefix, opts)
		}
	}
	if n := len(indexNames(c)); n != maxIndexes {
		t.Errorf("%d indexes", n)
	}
	c.indexing.mu.Lock()
	defer c.indexing.mu.Unlock()
	if n := len(c.indexing.wanted); n > maxWanted {
		t.Errorf("%d names are counted", n)
	}
}

// TestCheckIndex: a comparison finds an index that is not of the rows.
func TestCheckIndex(t *testing.T) {
	store := newFake()
	putPod(t, store, "a", "x", "n1", "one")
	c := started(t, store, nil)
	c.addIndex(nodeIndex)
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.rows.indexes[0].rows.Clear()
	if err := c.Check(t.Context()); !errors.Is(err, ErrInconsistent) || !strings.Contains(err.Error(), "spec.nodeName") {
		t.Errorf("error %v", err)
	}
}
