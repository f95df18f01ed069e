package etcd3_test

import (
	"testing"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
)

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) (storage.Interface, storagetest.Compaction) {
		store, client := etcd3test.NewStore(t)
		return store, etcd3test.Compaction(client)
	})
}
