package cacher

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"weir.dev/weir/server/storage"
)

const (
	// maxPast bounds the watchers that read from the storage at a time, so that a restart
	// under many clients does not become as many watches of the storage.
	maxPast = 256
	// pastWait is how long a watcher waits for its turn to read from the storage. Most are
	// done with it in a moment; those that do not read hold the others up no longer than this.
	pastWait = 30 * time.Second
)

// pasts are the watchers that read from the storage, and those that wait for their turn.
type pasts struct {
	mu      sync.Mutex
	stopped bool // guarded by mu
	// readers have their turn; the value ends what a watcher reads, nil before it has opened it. guarded by mu
	readers map[*watcher]func()
	// queue are those that wait, the first first. guarded by mu
	queue []*watcher
}

// enter gives the watcher its turn, at once or later; leave must follow.
func (p *pasts) enter(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, w)
	p.grantLocked()
}

func (p *pasts) grantLocked() {
	for len(p.queue) > 0 && len(p.readers) < maxPast {
		w := p.queue[0]
		p.queue = slices.Delete(p.queue, 0, 1)
		if p.readers == nil {
			p.readers = map[*watcher]func(){}
		}
		p.readers[w] = nil
		close(w.turn)
	}
}

// opened notes how to end what the watcher reads. It is false when its turn is over already.
func (p *pasts) opened(w *watcher, end func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.readers[w]; !ok || p.stopped {
		return false
	}
	p.readers[w] = end
	return true
}

// leave ends what the watcher reads, or its wait.
func (p *pasts) leave(w *watcher) {
	p.mu.Lock()
	end, reads := p.readers[w]
	if reads {
		delete(p.readers, w)
		p.grantLocked()
	} else if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.mu.Unlock()
	if end != nil {
		end()
	}
}

// stop ends what the readers read.
func (p *pasts) stop() {
	p.mu.Lock()
	p.stopped = true
	var ends []func()
	for _, end := range p.readers {
		if end != nil {
			ends = append(ends, end)
		}
	}
	p.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// catchUp has the watcher begin with a watch of the storage. Such a watcher has seen all of
// its events up to the last event or bookmark. As soon as the ring has everything
// after that, it goes on there, and the storage's watch ends.
func (w *watcher) catchUp(ctx context.Context, key string, opts storage.ListOptions) error {
	c := w.cacher
	opts.Progress = true
	opts.Predicate.GetAttrs = c.config.GetAttrs
	w.open = func() error {
		ctx, cancel := context.WithCancel(ctx)
		past, err := c.config.Storage.Watch(ctx, key, opts)
		if err != nil {
			cancel()
			return err
		}
		end := func() {
			past.Stop()
			cancel()
		}
		if !c.pasts.opened(w, end) {
			end()
			return io.EOF
		}
		w.past = past
		return nil
	}
	w.turn = make(chan struct{})
	w.turnBy = c.config.Clock.Now().Add(pastWait)
	c.pasts.enter(w)
	select {
	case <-w.turn:
		return w.open()
	default:
		return nil
	}
}

// awaitTurn opens the storage's watch when it is the watcher's turn.
func (w *watcher) awaitTurn(ctx context.Context) error {
	c := w.cacher
	wait := w.turnBy.Sub(c.config.Clock.Now())
	if wait <= 0 {
		select {
		case <-w.turn:
		default:
			return w.fail(w.tooOld())
		}
	}
	timer := c.config.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.turn:
		return w.takeTurn(ctx)
	case <-timer.C():
		select {
		case <-w.turn: // both have come
			return w.takeTurn(ctx)
		default:
			return w.fail(w.tooOld())
		}
	case <-w.stop:
	case <-c.stopped:
	case <-w.ended:
	case <-ctx.Done():
	}
	return w.over(ctx)
}

// takeTurn opens the storage's watch.
func (w *watcher) takeTurn(ctx context.Context) error {
	err := w.open()
	if err == nil {
		return nil
	}
	if over := w.over(ctx); over != nil {
		return over
	}
	return w.fail(err)
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
	if w.past == nil {
		return w.awaitTurn(ctx)
	}
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
		if storage.CodeOf(err) == storage.ErrCodeExpired {
			err = w.tooOld()
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
	w.past, w.open = nil, nil
	c.pasts.leave(w)
}
