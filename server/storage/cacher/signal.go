package cacher

import "sync/atomic"

// signal wakes all who wait for something, each with its own select.
//
// Who waits arms the current generation, then looks whether there is something, and
// only then waits on the generation's channel. Who has something makes it visible,
// then fires. The two orders together leave no gap: either the waiter sees the thing,
// or the firing sees the armed generation. Nothing is allocated while nobody waits.
type signal struct {
	current atomic.Pointer[generation]
}

// generation is what all who have begun to wait between two firings share.
type generation struct {
	fired chan struct{}
	armed atomic.Bool
	// first is the sequence that the firing was given. Read it only after fired is closed.
	first uint64
}

func newGeneration() *generation { return &generation{fired: make(chan struct{})} }

// hasFired reports whether g has been fired; a nil one never is.
func (g *generation) hasFired() bool {
	if g == nil {
		return false
	}
	select {
	case <-g.fired:
		return true
	default:
		return false
	}
}

// arm returns the current generation, which the next fire closes.
func (s *signal) arm() *generation {
	g := s.current.Load()
	for g == nil {
		s.current.CompareAndSwap(nil, newGeneration())
		g = s.current.Load()
	}
	g.armed.Store(true)
	return g
}

// fire wakes all who have armed.
func (s *signal) fire(first uint64) {
	g := s.current.Load()
	if g == nil || !g.armed.Load() || !s.current.CompareAndSwap(g, nil) {
		return
	}
	g.first = first
	close(g.fired)
}
