package cacher

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// The objects of the benchmarks: about 2 KiB each, in 50 namespaces and on 500 nodes, of 100 apps.
const (
	benchBytes      = 2048
	benchNamespaces = 50
	benchNodes      = 500
	benchApps       = 100
)

// benchSizes are how many objects the benchmarks have.
func benchSizes() []int {
	if testing.Short() {
		return []int{10_000}
	}
	return []int{10_000, 150_000}
}

// benchPod returns the key and the value of an object.
func benchPod(i int) (string, []byte) {
	namespace, name := fmt.Sprintf("ns%d", i%benchNamespaces), fmt.Sprintf("pod%d", i)
	value := pod(namespace, name, fmt.Sprintf("n%d", i%benchNodes), fmt.Sprintf("app%d", i%benchApps))
	padding := strings.Repeat("x", max(benchBytes-len(value)-len(`"resourceVersion":"123456",`)-len(`"pad":"",`), 0))
	return podKey(namespace, name), bytes.Replace(value, []byte(`"spec":{`), fmt.Appendf(nil, `"spec":{"pad":%q,`, padding), 1)
}

// benchCacher returns a started cacher of n objects.
func benchCacher(b testing.TB, n int) (*Cacher, *fake) {
	b.Helper()
	store := newFake()
	for i := range n {
		key, value := benchPod(i)
		if _, err := store.Create(b.Context(), key, value, 0); err != nil {
			b.Fatal(err)
		}
	}
	if n <= fillPage {
		store.log = nil // from which the pages after the first are read
	}
	return started(b, store, func(config *Config) { config.Logger = slog.New(slog.DiscardHandler) }), store
}

// onSizes runs a benchmark with each number of objects.
func onSizes(b *testing.B, run func(b *testing.B, c *Cacher, n int)) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			c, _ := benchCacher(b, n)
			run(b, c, n)
		})
	}
}

func BenchmarkGet(b *testing.B) {
	onSizes(b, func(b *testing.B, c *Cacher, _ int) {
		for _, rv := range []string{"0", ""} {
			b.Run(fmt.Sprintf("rv=%q", rv), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Get(b.Context(), podKey("ns7", "pod7"), storage.GetOptions{ResourceVersion: rv}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

func BenchmarkList(b *testing.B) {
	onSizes(b, func(b *testing.B, c *Cacher, n int) {
		tests := []struct {
			name, key, label, field string
			rows                    int
		}{
			{name: "all", key: testPrefix, rows: n},
			{name: "namespace", key: testPrefix + "ns7/", rows: n / benchNamespaces},
			{name: "label selector", key: testPrefix, label: "app=app7", rows: n / benchApps},
			{name: "field selector", key: testPrefix, field: "spec.nodeName=n7", rows: n / benchNodes},
			{name: "selector of none", key: testPrefix, field: "spec.nodeName=none"},
		}
		for _, tc := range tests {
			b.Run(tc.name, func(b *testing.B) {
				opts := selecting(b, "", tc.label, tc.field)
				b.ReportAllocs()
				for b.Loop() {
					list, err := c.GetList(b.Context(), tc.key, opts)
					if err != nil || len(list.Rows) != tc.rows {
						b.Fatal(len(list.Rows), err)
					}
				}
			})
		}
	})
}

// BenchmarkPage is the cost of one page of 500 in a walk over all of them.
func BenchmarkPage(b *testing.B) {
	onSizes(b, func(b *testing.B, c *Cacher, _ int) {
		opts := selecting(b, "", "", "")
		opts.Predicate.Limit = 500
		b.ReportAllocs()
		for b.Loop() {
			list, err := c.GetList(b.Context(), testPrefix, opts)
			if err != nil || len(list.Rows) != 500 {
				b.Fatal(len(list.Rows), err)
			}
			opts.Predicate.Continue = list.Continue
		}
	})
}

// BenchmarkExact is a list at a revision of the past, the first time and again.
func BenchmarkExact(b *testing.B) {
	c, store := benchCacher(b, 10_000)
	opts := selecting(b, rvString(c.Progress()), "", "spec.nodeName=n7")
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	key, value := benchPod(7)
	var last storage.Row
	for range 1000 {
		store.do(func() { last = store.putLocked(key, value) })
	}
	if err := c.WaitUntil(b.Context(), last.ResourceVersion); err != nil {
		b.Fatal(err)
	}
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !kept {
					c.kept.clear()
				}
				if _, err := c.GetList(b.Context(), testPrefix, opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMemory reports what an object takes on the heap, and what of it is not its bytes.
func BenchmarkMemory(b *testing.B) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			var held, length float64
			for b.Loop() {
				before := heapAlloc()
				c, store := benchCacher(b, n)
				row, err := c.Get(b.Context(), podKey("ns7", "pod7"), storage.GetOptions{ResourceVersion: "0"})
				if err != nil {
					b.Fatal(err)
				}
				length = float64(row.Value.Len())
				store.do(func() { store.rows, store.log = nil, nil }) // what is left is the cache's
				held = float64(heapAlloc()-before) / float64(n)
				c.Stop()
			}
			b.ReportMetric(held, "B/object")
			b.ReportMetric(held-length, "overhead-B/object")
		})
	}
}

func heapAlloc() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers have freed
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkFanOut is the cost of one event for the watchers that it concerns, and for the others: those that wait for it,
// and those that take it.
func BenchmarkFanOut(b *testing.B) {
	tests := []struct {
		name string
		// selector of the watcher i, on a field.
		selector func(i int) string
		concerns func(watchers int) int
	}{
		{name: "everything", selector: func(int) string { return "" }, concerns: func(watchers int) int { return watchers }},
		{name: "indexed", selector: func(i int) string { return fmt.Sprintf("spec.nodeName=n%d", i) }, concerns: func(int) int { return 1 }},
		// A selector that no index can serve: all but the first exclude the node.
		{
			name: "not indexed",
			selector: func(i int) string {
				if i == 0 {
					return "spec.nodeName!=none"
				}
				return fmt.Sprintf("spec.nodeName!=n0,spec.nodeName!=n%d", i)
			},
			concerns: func(int) int { return 1 },
		},
	}
	for _, n := range append([]int{1}, benchSizes()...) {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			c, store := benchCacher(b, n)
			for _, tc := range tests {
				for i, watchers := range []int{1, 1, 100, 100, 1000, 1000, 10000, 10000} {
					taking := i%2 == 1
					b.Run(fmt.Sprintf("%s/watchers=%d/taking=%t", tc.name, watchers, taking), func(b *testing.B) {
						// What was written before need not stay in memory.
						store.do(func() { store.log, store.epochErr = nil, io.EOF; store.epoch++ })
						fanOut(b, c, store, watchers, tc.concerns(watchers), taking, tc.selector)
					})
				}
			}
		})
	}
}

// fanOut writes to one object, and waits each time until all of the watchers that are concerned have the event.
func fanOut(b *testing.B, c *Cacher, store *fake, watchers, concerned int, taking bool, selector func(i int) string) {
	ctx, cancel := context.WithCancel(b.Context())
	var running, delivered sync.WaitGroup
	for i := range watchers {
		w := mustWatch(b, c, testPrefix, selecting(b, rvString(c.Progress()), "", selector(i)))
		if taking {
			w.(storage.Offerer).Offer(func(events []storage.Event) (taken bool, later func()) {
				delivered.Add(-len(events))
				return true, nil
			}, uint64(i/50))
		}
		running.Go(func() {
			for {
				events, err := w.Next(ctx)
				if err != nil {
					return
				}
				delivered.Add(-len(events))
			}
		})
	}
	runtime.Gosched()
	key, value := benchPod(0)
	b.ReportAllocs()
	for b.Loop() {
		delivered.Add(concerned)
		store.do(func() { store.putLocked(key, value) })
		delivered.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(concerned), "ns/delivery")
	cancel()
	running.Wait()
}

// BenchmarkIndexBuild is the cost of an index, and what it takes on the heap.
func BenchmarkIndexBuild(b *testing.B) {
	onSizes(b, func(b *testing.B, c *Cacher, n int) {
		for _, key := range []indexKey{nodeIndex, appIndex} {
			b.Run(key.name, func(b *testing.B) {
				v := c.snapshot()
				var held float64
				for b.Loop() {
					b.StopTimer()
					before := heapAlloc()
					b.StartTimer()
					x := newIndex(key, v.rows)
					b.StopTimer()
					held = float64(heapAlloc()-before) / float64(n)
					runtime.KeepAlive(x)
					b.StartTimer()
				}
				b.ReportMetric(held, "B/object")
			})
		}
	})
}

// BenchmarkApply is the cost of an event to a cache, with and without indexes, and where each state is frozen by a list.
func BenchmarkApply(b *testing.B) {
	onSizes(b, func(b *testing.B, c *Cacher, n int) {
		rv := c.rv.Load()
		for _, indexes := range [][]indexKey{nil, {nodeIndex}, {nodeIndex, appIndex}} {
			for _, lists := range []bool{false, true} {
				b.Run(fmt.Sprintf("indexes=%d/lists=%v", len(indexes), lists), func(b *testing.B) {
					for _, key := range indexes {
						c.addIndex(key)
					}
					f := newFilter("", false, selecting(b, "", "app=app7", "spec.nodeName=n7").Predicate)
					events := make([]*event, 256)
					for i := range events {
						key, value := benchPod(i * n / len(events))
						events[i] = &event{kind: put, cur: c.element(storage.Row{Key: key, Value: storage.NewText(value)})}
					}
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						rv++
						c.commit([]*event{{kind: put, rv: rv, cur: events[i%len(events)].cur}}, rv)
						if lists {
							c.snapshotFor(&f)
						}
					}
				})
			}
		}
	})
}
