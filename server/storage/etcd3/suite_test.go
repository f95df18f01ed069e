package etcd3_test

import (
	"testing"

	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
)

func TestCreate(t *testing.T) {
	store, _ := etcd3test.NewStore(t)
	storagetest.RunTestCreate(t.Context(), t, store)
}

func TestCreateExists(t *testing.T) {
	store, _ := etcd3test.NewStore(t)
	storagetest.RunTestCreateExists(t.Context(), t, store)
}

func TestCreateTooLarge(t *testing.T) {
	store, _ := etcd3test.NewStore(t)
	storagetest.RunTestCreateTooLarge(t.Context(), t, store)
}

func TestKeys(t *testing.T) {
	store, _ := etcd3test.NewStore(t)
	storagetest.RunTestKeys(t.Context(), t, store)
}
