// Package etcd3test gives tests a real etcd.
package etcd3test

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// New returns the client of an empty etcd that runs in this process, without fsync,
// until the test ends.
func New(t testing.TB) *clientv3.Client {
	t.Helper()
	e, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close etcd: %v", err)
		}
	})
	return e.Client()
}

// NewStore returns a Store for storagetest on an etcd of its own.
func NewStore(t testing.TB) (*etcd3.Store, *clientv3.Client) {
	t.Helper()
	client := New(t)
	store, err := etcd3.New(etcd3.Config{Client: client, Prefix: storagetest.Root})
	if err != nil {
		t.Fatal(err)
	}
	return store, client
}

// Compaction drops the history of the etcd of client.
func Compaction(client *clientv3.Client) storagetest.Compaction {
	return func(ctx context.Context, t testing.TB, rev uint64) {
		t.Helper()
		if _, err := client.Compact(ctx, int64(rev), clientv3.WithCompactPhysical()); err != nil {
			t.Fatalf("compact %d: %v", rev, err)
		}
	}
}
