package etcd3_test

import (
	"fmt"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage/etcd3"
)

// TestCloseUnderWatches closes the server while it sends events. A stream that outlived the server read the
// values before them from a closed database.
func TestCloseUnderWatches(t *testing.T) {
	for range 8 {
		e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
		for i := range 2000 {
			if _, err := e.Client().Put(t.Context(), fmt.Sprintf("k%d", i%10), "v"); err != nil {
				t.Fatal(err)
			}
		}
		var watches sync.WaitGroup
		started := make(chan struct{}, 1)
		for range 4 {
			events := e.Client().Watch(t.Context(), "k", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(2))
			watches.Go(func() {
				for range events {
					select {
					case started <- struct{}{}:
					default:
					}
				}
			})
		}
		<-started
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		watches.Wait()
	}
}
