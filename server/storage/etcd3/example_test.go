package etcd3_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
)

// An etcd in this process, and a Store on it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "etcd3")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	etcd, err := etcd3.StartEmbedded(ctx, etcd3.EmbeddedConfig{DataDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()
	store, err := etcd3.New(etcd3.Config{Client: etcd.Client()})
	if err != nil {
		log.Fatal(err)
	}

	const prefix = "/registry/configmaps/"
	watcher, err := store.Watch(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		log.Fatal(err)
	}
	defer watcher.Stop()
	row, err := store.Create(ctx, prefix+"default/a", []byte(`{"kind":"ConfigMap","metadata":{"name":"a"}}`), 0)
	if err != nil {
		log.Fatal(err)
	}
	events, err := watcher.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(events[0].Type, events[0].Row.Key, events[0].Row.ResourceVersion == row.ResourceVersion)
	// Output: ADDED /registry/configmaps/default/a true
}
