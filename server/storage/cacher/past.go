package cacher

import (
	"context"
	"fmt"
	"sync"

	"weir.dev/weir/server/storage"
)

// maxPast bounds the watchers that read from the storage at a time, so that a restart
// under many clients does not become as many watches of the storage.
const maxPast = 256

// pasts are the watchers that read from the storage.
type pasts struct {
	mu      sync.Mutex
	stopped bool                  // guarded by mu
	readers map[*watcher]struct{} // guarded by mu
}

func (p *pasts) add(w *watcher) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || len(p.readers) == maxPast {
		return false
	}
	if p.readers == nil {
		p.readers = map[*watcher]struct{}{}
	}
	p.readers[w] = struct{}{}
	return true
}

func (p *pasts) remove(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.readers, w)
}

// stop ends what the readers read.
func (p *pasts) stop() {
	p.mu.Lock()
	p.stopped = true
	readers := p.readers
	p.readers = nil
	p.mu.Unlock()
	for w := range readers {
		w.endPast()
	}
}

// catchUp has the watcher begin with a watch of the storage. Such a watcher has seen all of
// its events up to the last event or bookmark. As soon as the ring has everything
// after that, it goes on there, and the storage's watch ends.
func (w *watcher) catchUp(ctx context.Context, key string, opts storage.ListOptions) error {
	c := w.cacher
	opts.Progress = true
	opts.Predicate.GetAttrs = c.config.GetAttrs
	ctx, cancel := context.WithCancel(ctx)
	past, err := c.config.Storage.Watch(ctx, key, opts)
	if err != nil {
		cancel()
		return err
	}
	w.past = past
	w.endPast = sync.OnceFunc(func() {
		past.Stop()
		cancel()
		c.pasts.remove(w)
	})
	if !c.pasts.add(w) {
		w.endPast()
		w.err = w.tooOld()
	}
	return nil
}

// tooOld is the error of a watch whose next events are gone.
func (w *watcher) tooOld() error {
	return &storage.Error{
		Code:            storage.ErrCodeExpired,
		ResourceVersion: w.last,
		Message:         fmt.Sprintf("too old resource version: %d (%d)", w.last, w.cacher.ring.floor.Load()),
	}
}

// readPast takes events from the storage's watch, and moves to the ring when it can.
func (w *watcher) readPast(ctx context.Context) error {
	c := w.cacher
	// Where nothing is selected, only a bookmark ends the past.
	c.waiters.Add(1)
	c.requestProgress()
	events, err := w.past.Next(ctx)
	c.waiters.Add(-1)
	if err != nil {
		if over := w.over(ctx); over != nil {
			return over
		}
		return w.fail(err)
	}
	for _, e := range events {
		w.last = max(w.last, e.Row.ResourceVersion)
		if e.Type != storage.Bookmark {
			e.Prev = storage.Row{}
			w.add(e)
		}
	}
	w.join()
	return nil
}

// join moves the watcher to the ring if that has all that follows what it has seen.
func (w *watcher) join() {
	c := w.cacher
	c.mu.RLock()
	defer c.mu.RUnlock()
	if w.last < c.ring.floor.Load() {
		return
	}
	w.after = w.last
	w.next = c.ring.next
	if w.last < c.rv.Load() {
		w.next = c.ring.after(w.last)
	}
	w.endPast()
	w.past = nil
}
