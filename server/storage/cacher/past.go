package cacher

import (
	"context"
	"errors"
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
	// pastWait is how long a watcher waits for its turn to read from the storage. Then it is sent to list again, which
	// costs the storage nothing.
	pastWait = 30 * time.Second
	// pastStall is how long a watcher may keep its turn without a Next, as where its client takes nothing.
	// pastStallQueued is the same while others wait for their turn.
	pastStall       = 30 * time.Second
	pastStallQueued = 5 * time.Second
	// pastTurn is after how long a turn ends with what the watcher is given next, where it reads more slowly than is written.
	pastTurn = 2 * time.Minute
	// pastLook is the time between looks for those that have kept their turn too long.
	pastLook = 2 * time.Second
)

// pasts are the watchers that read from the storage, and those that wait for their turn.
type pasts struct {
	mu      sync.Mutex
	stopped bool // guarded by mu
	// looking: a goroutine looks for those that have kept their turn too long. guarded by mu
	looking bool
	// readers have their turn. guarded by mu
	readers map[*watcher]*turn
	// queue are those that wait, the first first. guarded by mu
	queue []*watcher
}

// turn is a watcher's time to read from the storage.
type turn struct {
	// end ends what the watcher reads or is about to, nil before it opens it.
	end   func()
	began time.Time
	// since is when the watcher was last heard of, zero while it waits for events of the storage.
	since time.Time
}

// enterPast gives the watcher its turn, at once or later; leavePast must follow.
func (c *Cacher) enterPast(w *watcher) {
	p := &c.pasts
	p.mu.Lock()
	p.queue = append(p.queue, w)
	p.grantLocked(c.config.Clock.Now())
	look := !p.looking
	p.looking = true
	p.mu.Unlock()
	if look {
		c.spawn(c.endStalled)
	}
}

func (p *pasts) grantLocked(now time.Time) {
	for len(p.queue) > 0 && len(p.readers) < maxPast {
		w := p.queue[0]
		p.queue = slices.Delete(p.queue, 0, 1)
		if p.readers == nil {
			p.readers = map[*watcher]*turn{}
		}
		p.readers[w] = &turn{began: now, since: now}
		close(w.turn)
	}
}

// waits notes that the watcher waits for events of the storage from now on. It is false when its turn is over.
func (p *pasts) waits(w *watcher) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.readers[w]
	if !ok || p.stopped {
		return false
	}
	t.since = time.Time{}
	return true
}

// opens notes how to end what the watcher reads or begins to. It is false when its turn is over already.
func (p *pasts) opens(w *watcher, end func(), now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.readers[w]
	if !ok || p.stopped {
		return false
	}
	t.end, t.since = end, now
	return true
}

// read notes that the watcher waits for the storage no longer. It reports whether its turn has been long.
func (p *pasts) read(w *watcher, now time.Time) (long bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.readers[w]
	if !ok {
		return false
	}
	t.since = now
	return now.Sub(t.began) > pastTurn
}

// leave ends what the watcher reads, or its wait.
func (p *pasts) leave(w *watcher, now time.Time) {
	p.mu.Lock()
	t, reads := p.readers[w]
	if reads {
		delete(p.readers, w)
		p.grantLocked(now)
	} else if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.mu.Unlock()
	if reads && t.end != nil {
		t.end()
	}
}

// stalled returns the watchers that have kept their turn for too long, false when there are no watchers at all.
func (p *pasts) stalled(now time.Time) (all []*watcher, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := pastStall
	if len(p.queue) > 0 {
		limit = pastStallQueued
	}
	for w, t := range p.readers {
		if !t.since.IsZero() && now.Sub(t.since) > limit {
			all = append(all, w)
		}
	}
	p.looking = len(p.readers)+len(p.queue) > 0
	return all, p.looking
}

// endStalled takes the turn of watchers that do nothing with it, until there are no watchers. The next Next of such a
// one returns io.EOF, so that its client goes on with another watch from where it is, and nothing is lost.
func (c *Cacher) endStalled() {
	for {
		timer := c.config.Clock.NewTimer(pastLook)
		select {
		case <-timer.C():
		case <-c.stopped:
			timer.Stop()
			return
		}
		now := c.config.Clock.Now()
		all, more := c.pasts.stalled(now)
		for _, w := range all {
			c.metrics.terminated.Inc()
			c.pasts.leave(w, now)
		}
		if !more {
			return
		}
	}
}

// stop ends what the readers read.
func (p *pasts) stop() {
	p.mu.Lock()
	p.stopped = true
	var ends []func()
	for _, t := range p.readers {
		if t.end != nil {
			ends = append(ends, t.end)
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
	// Not Bare: the storage keeps little for a watch that is not read.
	opts.Progress, opts.Bare = true, false
	opts.Predicate.GetAttrs = c.config.GetAttrs
	w.open = func(next context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		// The storage may be away: then the opening is ended as a turn that is not used is.
		if !c.pasts.opens(w, cancel, c.config.Clock.Now()) {
			cancel()
			return io.EOF
		}
		stop := context.AfterFunc(next, cancel)
		past, err := c.config.Storage.Watch(ctx, key, opts)
		if !stop() && err == nil {
			past.Stop()
			err = next.Err()
		}
		end := cancel
		if err == nil {
			end = func() {
				past.Stop()
				cancel()
			}
		}
		if !c.pasts.opens(w, end, c.config.Clock.Now()) {
			end()
			return io.EOF
		}
		if err != nil {
			cancel()
			return err
		}
		w.past = past
		return nil
	}
	w.turn = make(chan struct{})
	w.turnBy = c.config.Clock.Now().Add(pastWait)
	c.enterPast(w)
	select {
	case <-w.turn:
		err := w.open(context.Background()) // ctx ends it in any case
		if errors.Is(err, io.EOF) {
			w.err, err = io.EOF, nil // for Next to say
		}
		return err
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

// takeTurn opens the storage's watch. When ctx is done first, the next Next tries it again.
func (w *watcher) takeTurn(ctx context.Context) error {
	err := w.open(ctx)
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
	if !c.pasts.waits(w) {
		if over := w.over(ctx); over != nil {
			return over
		}
		return w.fail(io.EOF)
	}
	// Where nothing is selected, only a bookmark ends the past.
	c.waiters.Add(1)
	c.requestProgress()
	events, err := w.past.Next(ctx)
	c.waiters.Add(-1)
	long := c.pasts.read(w, c.config.Clock.Now())
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
	if w.join(); long && w.open != nil && w.batch != nil {
		w.past, w.open, w.err = nil, nil, io.EOF
		c.leavePast(w)
	}
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
	c.leavePast(w)
}

// leavePast ends what the watcher reads from the storage, or its wait for that.
func (c *Cacher) leavePast(w *watcher) { c.pasts.leave(w, c.config.Clock.Now()) }
