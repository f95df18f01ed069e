package cacher

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// TestWatchesShareASlowQuestion: when the question for the revision, which many watches share, takes too long, they ask again
// instead of all ending.
func TestWatchesShareASlowQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		c := started(t, store, nil)
		block := make(chan struct{})
		store.do(func() { store.block = block })
		asked := store.current

		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.GetCurrentResourceVersion(ctx); err == nil {
				t.Error("the first question was answered")
			}
		})
		synctest.Wait()
		for range 250 {
			all.Go(func() {
				w, err := c.Watch(t.Context(), testPrefix, selecting(t, "", "", ""))
				if err != nil {
					t.Error(err)
					return
				}
				w.Stop()
			})
		}
		// The question that all share is asked after a second, and given up three later.
		time.Sleep(time.Second + DefaultFreshTimeout + time.Second)
		store.do(func() { store.block = nil })
		close(block)
		all.Wait()
		if n := store.current - asked; n > 4 {
			t.Errorf("%d questions", n)
		}
	})
}

// TestExactAhead: a state that the cache has not come to, as that of a page from the storage, is left to the storage.
func TestExactAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		putPod(t, store, "a", "x", "", "")
		c := started(t, store, nil)
		store.do(func() { store.silent = true })
		last := putPod(t, store, "a", "y", "", "")
		opts := selecting(t, rvString(last.ResourceVersion), "", "")
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
		if list := mustList(t, c, testPrefix, opts); len(list.Rows) != 2 || list.ResourceVersion != last.ResourceVersion {
			t.Errorf("rows %v at %d", suffixes(list.Rows), list.ResourceVersion)
		}
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		if _, err := c.GetList(t.Context(), testPrefix, opts); storage.CodeOf(err) != storage.ErrCodeResourceVersionTooLarge {
			t.Errorf("not older: %v", err)
		}
	})
}
