package cacher_test

import (
	"context"
	"fmt"
	"os"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

func ExampleCacher() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cacher")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	etcd, err := etcd3.StartEmbedded(ctx, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true})
	if err != nil {
		panic(err)
	}
	defer etcd.Close()
	store, err := etcd3.New(etcd3.Config{Client: etcd.Client()})
	if err != nil {
		panic(err)
	}
	c, err := cacher.New(cacher.Config{Storage: store, Prefix: storagetest.Prefix, GetAttrs: storagetest.Attrs})
	if err != nil {
		panic(err)
	}
	defer c.Stop()

	watcher, err := c.Watch(ctx, storagetest.Prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		panic(err)
	}
	defer watcher.Stop()
	settings := storagetest.NewObject("settings")
	if _, err := c.Create(ctx, settings.Key(), settings.JSON(), 0); err != nil {
		panic(err)
	}
	events, err := watcher.Next(ctx)
	if err != nil {
		panic(err)
	}
	list, err := c.GetList(ctx, storagetest.Prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		panic(err)
	}
	fmt.Println(events[0].Type, events[0].Row.Key)
	fmt.Println(len(list.Rows), "object listed")
	// Output:
	// ADDED /registry/configmaps/test/settings
	// 1 object listed
}
