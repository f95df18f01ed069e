package etcd3_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// BenchmarkWrites creates objects of 2 KiB in an embedded etcd: from one writer and from many, of one resource and of
// several, with and without fsync. It reports the database's size for each object too.
func BenchmarkWrites(b *testing.B) {
	for _, tc := range []struct {
		name               string
		noFsync            bool
		writers, resources int
	}{
		{"fsync/1writer/1resource", false, 1, 1},
		{"fsync/64writers/1resource", false, 64, 1},
		{"fsync/64writers/8resources", false, 64, 8},
		{"nofsync/64writers/1resource", true, 64, 1},
	} {
		b.Run(tc.name, func(b *testing.B) {
			e, err := etcd3.StartEmbedded(b.Context(), etcd3.EmbeddedConfig{DataDir: b.TempDir(), UnsafeNoFsync: tc.noFsync})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			store, err := etcd3.New(etcd3.Config{Client: e.Client(), Prefix: storagetest.Root})
			if err != nil {
				b.Fatal(err)
			}
			value := storagetest.NewObject("a").With("pad", strings.Repeat("x", 1900)).JSON()
			var next atomic.Int64
			var writers sync.WaitGroup
			b.ResetTimer()
			for range tc.writers {
				writers.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						key := fmt.Sprintf("%s/resource%d/ns%d/object%d", storagetest.Root, n%int64(tc.resources), n%50, n)
						if _, err := store.Create(b.Context(), key, value, 0); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			if size, err := etcd3.DatabaseSize(e.Client()); err == nil && b.N > 1000 {
				b.ReportMetric(float64(size)/float64(b.N), "dbB/object")
			}
		})
	}
}
