// Package pool keeps a bounded number of things that are costly to make.
package pool

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrClosed is returned by Get after Close.
var ErrClosed = errors.New("pool: closed")

// Pool lends out at most a fixed number of items at a time, the one used
// last first. Who waits gets its turn in order. It is safe for concurrent use.
type Pool[T any] struct {
	make  func(context.Context) (T, error)
	free  func(T)
	limit int

	mu      sync.Mutex
	idle    []T                // guarded by mu; the one used last is last
	unused  int                // guarded by mu; how many of the first of idle nobody took since the last Trim
	lent    int                // guarded by mu
	waiting []chan handOver[T] // guarded by mu; Invariant: empty unless lent == limit
	closed  bool               // guarded by mu
	counts  Counts             // guarded by mu
	drained chan struct{}      // closed when closed and nothing is lent
}

// Counts are how often something happened to a Pool.
type Counts struct {
	// Made items, without those whose making failed.
	Made uint64
	// Discarded items, by Discard.
	Discarded uint64
	// Trimmed items, by Trim.
	Trimmed uint64
	// Waits of Get because all items were out.
	Waits uint64
}

// Add adds others.
func (c *Counts) Add(o Counts) {
	c.Made += o.Made
	c.Discarded += o.Discarded
	c.Trimmed += o.Trimmed
	c.Waits += o.Waits
}

// Stats are the state of a Pool.
type Stats struct {
	// Idle items, and Lent ones: those that are being made or disposed of too.
	Idle, Lent int
	Counts
}

// handOver is what one who waits is given: an item, or leave to make one.
type handOver[T any] struct {
	item T
	made bool
	err  error
}

// New returns a pool of at most limit items, which newItem makes and free
// disposes of.
func New[T any](limit int, newItem func(context.Context) (T, error), free func(T)) *Pool[T] {
	return &Pool[T]{make: newItem, free: free, limit: limit, drained: make(chan struct{})}
}

// takeLocked lends an idle item.
func (p *Pool[T]) takeLocked() (item T, ok bool) {
	n := len(p.idle)
	if n == 0 || p.closed {
		return item, false
	}
	var zero T
	item = p.idle[n-1]
	p.idle[n-1] = zero
	p.idle = p.idle[:n-1]
	p.unused = min(p.unused, n-1)
	p.lent++
	return item, true
}

// TryGet lends an idle item, if there is one and nobody waits.
func (p *Pool[T]) TryGet() (T, bool) {
	p.mu.Lock()
	item, ok := p.takeLocked()
	p.mu.Unlock()
	return item, ok
}

// Get lends an item, waiting for one if all are out. Every item must come
// back by Put or Discard. The error is ErrClosed, the context's, or that of
// making an item.
func (p *Pool[T]) Get(ctx context.Context) (T, error) {
	var zero T
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return zero, ErrClosed
	}
	if item, ok := p.takeLocked(); ok {
		p.mu.Unlock()
		return item, nil
	}
	if p.lent < p.limit {
		p.lent++
		p.mu.Unlock()
		return p.newItem(ctx)
	}
	p.counts.Waits++
	turn := make(chan handOver[T], 1)
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	select {
	case h := <-turn:
		return p.takeOver(ctx, h)
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.waiting, turn)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 { // it was its turn meanwhile
		if h := <-turn; h.err == nil {
			if h.made {
				p.Put(h.item)
			} else {
				p.giveBack(handOver[T]{})
			}
		}
	}
	return zero, context.Cause(ctx)
}

func (p *Pool[T]) takeOver(ctx context.Context, h handOver[T]) (T, error) {
	if h.err != nil || h.made {
		return h.item, h.err
	}
	return p.newItem(ctx)
}

// newItem makes an item that counts as lent already.
func (p *Pool[T]) newItem(ctx context.Context) (T, error) {
	item, err := p.make(ctx)
	if err != nil {
		var zero T
		p.giveBack(handOver[T]{})
		return zero, err
	}
	p.mu.Lock()
	p.counts.Made++
	p.mu.Unlock()
	return item, nil
}

// Put takes an item back.
func (p *Pool[T]) Put(item T) { p.giveBack(handOver[T]{item: item, made: true}) }

// Discard disposes of an item that was lent out.
func (p *Pool[T]) Discard(item T) {
	p.mu.Lock()
	p.counts.Discarded++
	p.mu.Unlock()
	p.dispose(item)
}

// dispose frees an item that counts as lent.
func (p *Pool[T]) dispose(item T) {
	p.free(item)
	p.giveBack(handOver[T]{})
}

// giveBack hands what was lent to who waits longest.
func (p *Pool[T]) giveBack(h handOver[T]) {
	p.mu.Lock()
	if len(p.waiting) > 0 {
		p.waiting[0] <- h // it has room
		p.waiting = slices.Delete(p.waiting, 0, 1)
		p.mu.Unlock()
		return
	}
	closed := p.closed
	if h.made && !closed {
		p.idle = append(p.idle, h.item)
	}
	if h.made && closed { // it counts until it is disposed of
		p.mu.Unlock()
		p.free(h.item)
		p.mu.Lock()
	}
	p.lent--
	last := p.closed && p.lent == 0
	p.mu.Unlock()
	if last {
		close(p.drained)
	}
}

// Trim disposes of the items that nobody has taken since the last Trim, those
// used longest ago first, but leaves at least keep items, the lent ones
// counted. It returns how many are left beyond these, to be trimmed another
// time.
func (p *Pool[T]) Trim(keep int) int {
	p.mu.Lock()
	n := max(0, min(p.unused, len(p.idle)+p.lent-keep))
	surplus := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.unused = len(p.idle)
	p.lent += n // they count until they are disposed of
	p.counts.Trimmed += uint64(n)
	left := len(p.idle) + p.lent - n - keep
	p.mu.Unlock()
	for _, item := range surplus {
		p.dispose(item)
	}
	return max(0, left)
}

// Stats are those of now.
func (p *Pool[T]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Idle: len(p.idle), Lent: p.lent, Counts: p.counts}
}

// Close disposes of the idle items and waits until all others are back; who
// waits for one gets ErrClosed. Further calls do nothing.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	idle, waiting, lent := p.idle, p.waiting, p.lent
	p.idle, p.waiting, p.unused = nil, nil, 0
	p.mu.Unlock()
	for _, turn := range waiting {
		turn <- handOver[T]{err: ErrClosed}
	}
	for _, item := range idle {
		p.free(item)
	}
	if lent > 0 {
		<-p.drained
	}
}
