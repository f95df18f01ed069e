package cacher_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
)

// newCacher returns a cacher on an etcd of its own, and what compacts both.
func newCacher(t testing.TB) (*cacher.Cacher, storagetest.Compaction) {
	t.Helper()
	store, client := etcd3test.NewStore(t)
	c, err := cacher.New(cacher.Config{
		Storage:  store,
		Prefix:   storagetest.Prefix,
		Resource: schema.GroupResource{Resource: "configmaps"},
		GetAttrs: storagetest.Attrs,
		// The suite asks for the future now and then.
		FreshTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	compact := etcd3test.Compaction(client)
	return c, func(ctx context.Context, t testing.TB, rev uint64) {
		t.Helper()
		if err := c.WaitUntil(ctx, rev); err != nil {
			t.Fatal(err)
		}
		compact(ctx, t, rev)
		c.Compact(rev)
	}
}

func TestStorage(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (storage.Interface, storagetest.Compaction) {
		return newCacher(t)
	})
}

// TestStorageWarm runs the suite on a cacher that has started and follows its storage.
func TestStorageWarm(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) (storage.Interface, storagetest.Compaction) {
		c, compact := newCacher(t)
		if err := c.WaitUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		return c, compact
	})
}
