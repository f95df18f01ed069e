//go:build unix

package etcd3_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// BenchmarkCheck compares a cache of objects of 2 KiB with its etcd, which is in this process: called directly, or by
// gRPC. cpu-ms is of both together. "revision" is what a comparison costs that is left out as nothing was written.
func BenchmarkCheck(b *testing.B) {
	const objects = 10000
	e := start(b, etcd3.EmbeddedConfig{DataDir: b.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	direct := newStore(b, etcd3.Config{Client: e.Client(), Prefix: storagetest.Root})
	var next sync.WaitGroup
	for i := range 64 {
		next.Go(func() {
			for n := i; n < objects; n += 64 {
				o := storagetest.NewObject(fmt.Sprint("object", n))
				for d := range 40 {
					o = o.With(fmt.Sprint("datum", d), strings.Repeat("x", 32))
				}
				if _, err := direct.Create(b.Context(), o.Key(), o.JSON(), 0); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	next.Wait()
	for _, tc := range []struct {
		name   string
		client *clientv3.Client
	}{{"direct", e.Client()}, {"grpc", dial(b, etcd3.DialConfig{Endpoints: []string{"http://" + e.Addr().String()}})}} {
		store := newStore(b, etcd3.Config{Client: tc.client, Prefix: storagetest.Root})
		c, err := cacher.New(cacher.Config{Storage: store, Prefix: storagetest.Prefix, GetAttrs: storagetest.Attrs})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Stop)
		for what, do := range map[string]func() error{
			fmt.Sprint(objects, "objects"): func() error { return c.Check(b.Context()) },
			"revision":                     func() error { _, err := c.GetCurrentResourceVersion(b.Context()); return err },
		} {
			b.Run(tc.name+"/"+what, func(b *testing.B) {
				if err := c.Check(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				before := processor(b)
				for range b.N {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(processor(b)-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// processor returns the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
