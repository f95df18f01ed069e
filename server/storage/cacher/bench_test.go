package cacher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"weir.dev/weir/server/storage"
)

// benchCacher returns a started cacher of n objects of 2 KiB in 50 namespaces.
func benchCacher(b *testing.B, n int) (*Cacher, *fake) {
	b.Helper()
	store := newFake()
	padding := strings.Repeat("x", 2048)
	for i := range n {
		namespace, name := fmt.Sprintf("ns%d", i%50), fmt.Sprintf("pod%d", i)
		value := bytes.Replace(pod(namespace, name, fmt.Sprintf("n%d", i%500), "one"), []byte(`"spec":{`), fmt.Appendf(nil, `"spec":{"pad":%q,`, padding), 1)
		if _, err := store.Create(b.Context(), podKey(namespace, name), value, 0); err != nil {
			b.Fatal(err)
		}
	}
	store.log = nil
	c := started(b, store, func(config *Config) { config.Logger = slog.New(slog.DiscardHandler) })
	b.ReportAllocs()
	return c, store
}

func BenchmarkGet(b *testing.B) {
	for _, rv := range []string{"0", ""} {
		b.Run(fmt.Sprintf("rv=%q", rv), func(b *testing.B) {
			c, _ := benchCacher(b, 5000)
			for b.Loop() {
				if _, err := c.Get(b.Context(), podKey("ns7", "pod7"), storage.GetOptions{ResourceVersion: rv}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	tests := []struct {
		name, key, field string
		limit            int64
		rows             int
	}{
		{name: "all", key: testPrefix, rows: 5000},
		{name: "page of 500", key: testPrefix, limit: 500, rows: 500},
		{name: "namespace", key: testPrefix + "ns7/", rows: 100},
		{name: "node", key: testPrefix, field: "spec.nodeName=n7", rows: 10},
	}
	for _, tc := range tests {
		b.Run(tc.name, func(b *testing.B) {
			c, _ := benchCacher(b, 5000)
			opts := selecting(b, "", "", tc.field)
			opts.Predicate.Limit = tc.limit
			for b.Loop() {
				list, err := c.GetList(b.Context(), tc.key, opts)
				if err != nil || len(list.Rows) != tc.rows {
					b.Fatal(len(list.Rows), err)
				}
			}
		})
	}
}

// BenchmarkFanOut is the cost of one event for all of its watchers, and for the others.
func BenchmarkFanOut(b *testing.B) {
	tests := []struct {
		name     string
		watchers int
		// concerned watch all objects, the others one node each.
		concerned int
	}{
		{name: "500 of 500", watchers: 500, concerned: 500},
		{name: "1 of 1", watchers: 1, concerned: 1},
		{name: "1 of 10000", watchers: 10000, concerned: 1},
	}
	for _, tc := range tests {
		b.Run(tc.name, func(b *testing.B) {
			c, store := benchCacher(b, 1)
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			var delivered sync.WaitGroup
			watch := func(field string, done func(n int)) {
				w := mustWatch(b, c, testPrefix, selecting(b, rvString(c.Progress()), "", field))
				running.Go(func() {
					for {
						events, err := w.Next(ctx)
						if err != nil {
							return
						}
						done(len(events))
					}
				})
			}
			for i := range tc.watchers {
				if i < tc.concerned {
					watch("", func(n int) { delivered.Add(-n) })
				} else {
					watch(fmt.Sprintf("spec.nodeName=other%d", i), func(int) {})
				}
			}
			runtime.Gosched()
			for b.Loop() {
				delivered.Add(tc.concerned)
				putPod(b, store, "a", "x", "n1", "")
				delivered.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tc.concerned), "ns/delivery")
			cancel()
			running.Wait()
		})
	}
}
