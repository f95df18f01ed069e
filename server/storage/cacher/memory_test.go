package cacher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"weir.dev/weir/server/storage"
)

// TestMemory: a read from memory never asks the storage, starts a cache that is not there, and keeps one that is.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 10 * time.Minute
		store := newFake()
		x := putPod(t, store, "a", "x", "", "")
		c := newTestCacher(t, store, func(c *Config) { c.IdleTimeout = idle })
		now := storage.WithMemory(t.Context(), &storage.Memory{})
		opts := selecting(t, "1", "", "")
		opts.Predicate.Limit = 1
		if _, err := c.Get(now, x.Key, storage.GetOptions{ResourceVersion: "0"}); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("get of a cache that is not there: %v", err)
		}
		if !c.Running() {
			t.Error("the read has not started the cache")
		}
		list, err := c.GetList(storage.WithMemory(t.Context(), &storage.Memory{Wait: true}), testPrefix, opts)
		if err != nil || len(list.Rows) != 1 {
			t.Fatalf("list that waits: %v, %v", list, err)
		}
		if row, err := c.Get(now, x.Key, storage.GetOptions{ResourceVersion: "0"}); err != nil || row.ResourceVersion != x.ResourceVersion {
			t.Errorf("get: %v, %v", row, err)
		}
		for range 8 {
			time.Sleep(idle / 2)
			if list, err := c.GetList(now, testPrefix, opts); err != nil || len(list.Rows) != 1 {
				t.Fatalf("list: %v, %v", list, err)
			}
		}
		time.Sleep(3 * idle)
		synctest.Wait()
		if c.Running() {
			t.Fatal("the cache has not stopped")
		}
		lists := store.lists
		if _, err := c.GetList(now, testPrefix, opts); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("list of a cache that stopped: %v", err)
		}
		synctest.Wait()
		if store.lists > lists+1 {
			t.Errorf("%d lists of the storage, want that of the fill alone", store.lists-lists)
		}
		c.Stop()
		if _, err := c.GetList(now, testPrefix, opts); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("list after the end: %v", err)
		}
		if _, err := c.Get(now, x.Key, storage.GetOptions{}); storage.CodeOf(err) != storage.ErrCodeNotReady {
			t.Errorf("get after the end: %v", err)
		}
	})
}

// TestMemoryRows: what a list looks at is counted and bounded, the same with an index and without.
func TestMemoryRows(t *testing.T) {
	store := newFake()
	for i := range 100 {
		putPod(t, store, "a", fmt.Sprintf("%03d", i), "n"+fmt.Sprint(i%10), "")
	}
	putPod(t, store, "b", "x", "n1", "")
	plain, indexed := started(t, store, nil), started(t, store, nil)
	node := selecting(t, "1", "", "spec.nodeName=n1")
	f := newFilter("", false, node.Predicate)
	key, ok := f.indexable(indexed.rows.indexes)
	if !ok {
		t.Fatal("no index is possible")
	}
	indexed.addIndex(key)
	tests := []struct {
		name, scope, field string
		limit              int64
		max                int
		rows, looked       int
		exceeded           bool
	}{
		{name: "all", limit: 500, rows: 101, looked: 101},
		{name: "some", limit: 5, rows: 5, looked: 5},
		{name: "selected", field: "spec.nodeName=n1", limit: 500, rows: 11, looked: 101},
		{name: "selected up to a limit", field: "spec.nodeName=n1", limit: 2, rows: 2, looked: 12},
		{name: "of a namespace", scope: "a/", field: "spec.nodeName=n1", limit: 500, rows: 10, looked: 100},
		{name: "none", field: "spec.nodeName=none", limit: 500, looked: 101},
		{name: "just enough", field: "spec.nodeName=n1", limit: 500, max: 101, rows: 11, looked: 101},
		{name: "one too few", field: "spec.nodeName=n1", limit: 500, max: 100, looked: 100, exceeded: true},
		{name: "enough for a limit", field: "spec.nodeName=n1", limit: 2, max: 12, rows: 2, looked: 12},
		{name: "too few for a limit", field: "spec.nodeName=n1", limit: 2, max: 11, looked: 11, exceeded: true},
	}
	for _, tc := range tests {
		for at, c := range map[string]*Cacher{"plain": plain, "indexed": indexed} {
			t.Run(tc.name+"/"+at, func(t *testing.T) {
				opts := selecting(t, "1", "", tc.field)
				opts.Predicate.Limit = tc.limit
				m := &storage.Memory{MaxRows: tc.max}
				list, err := c.GetList(storage.WithMemory(t.Context(), m), testPrefix+tc.scope, opts)
				if (storage.CodeOf(err) == storage.ErrCodeTooLarge) != tc.exceeded || err != nil && !tc.exceeded {
					t.Fatal(err)
				}
				if len(list.Rows) != tc.rows || m.Rows != tc.looked || m.Exceeded != tc.exceeded {
					t.Errorf("%d rows, %+v", len(list.Rows), m)
				}
			})
		}
	}
}

// TestListEndsWithItsCaller: nobody goes through rows for who has gone.
func TestListEndsWithItsCaller(t *testing.T) {
	store := newFake()
	for i := range looksPerTest {
		putPod(t, store, "a", fmt.Sprintf("%05d", i), "", "")
	}
	c := started(t, store, nil)
	f := newFilter("", false, selecting(t, "", "a=b", "").Predicate)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.page(ctx, c.snapshotFor(&f), &f, "", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
