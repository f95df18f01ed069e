// Package pool keeps a bounded number of things that are costly to make.
package pool

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is returned by Get after Close.
var ErrClosed = errors.New("pool: closed")

// Pool lends out at most a fixed number of items at a time, the one used
// last first. It is safe for concurrent use.
type Pool[T any] struct {
	make func(context.Context) (T, error)
	free func(T)
	// slots holds a token for every item that may be lent out.
	slots chan struct{}
	done  chan struct{} // closed by Close

	mu     sync.Mutex
	idle   []T  // guarded by mu
	closed bool // guarded by mu
}

// New returns a pool of at most limit items, which newItem makes and free
// disposes of.
func New[T any](limit int, newItem func(context.Context) (T, error), free func(T)) *Pool[T] {
	p := &Pool[T]{make: newItem, free: free, slots: make(chan struct{}, limit), done: make(chan struct{})}
	for range limit {
		p.slots <- struct{}{}
	}
	return p
}

// Get lends an item, waiting for one if all are out. Every item must come
// back by Put or Discard. The error is ErrClosed, the context's, or that of
// making an item.
func (p *Pool[T]) Get(ctx context.Context) (T, error) {
	var zero T
	select {
	case <-p.slots:
	default:
		select {
		case <-p.slots:
		case <-p.done:
			return zero, ErrClosed
		case <-ctx.Done():
			return zero, context.Cause(ctx)
		}
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.slots <- struct{}{}
		return zero, ErrClosed
	}
	if n := len(p.idle); n > 0 {
		item := p.idle[n-1]
		p.idle[n-1] = zero
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return item, nil
	}
	p.mu.Unlock()
	item, err := p.make(ctx)
	if err != nil {
		p.slots <- struct{}{}
		return zero, err
	}
	return item, nil
}

// Put takes an item back.
func (p *Pool[T]) Put(item T) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, item)
	}
	p.mu.Unlock()
	if closed {
		p.free(item)
	}
	p.slots <- struct{}{}
}

// Discard disposes of an item that was lent out.
func (p *Pool[T]) Discard(item T) {
	p.free(item)
	p.slots <- struct{}{}
}

// Idle is the number of items that are not lent out.
func (p *Pool[T]) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Close disposes of the idle items and waits until all others are back.
// Further calls do nothing.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	close(p.done)
	for _, item := range idle {
		p.free(item)
	}
	for range cap(p.slots) {
		<-p.slots
	}
}
