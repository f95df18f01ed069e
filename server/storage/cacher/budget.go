package cacher

import (
	"sync"
	"sync/atomic"
)

// Budget bounds the memory of the events and states that several cachers remember, in bytes as Config.RingBytes counts them. When
// there are more, the cacher that has most of them forgets its oldest, and so on, but for 100 events each: one under
// many writes does not take the memory of others, nor do those keep it that are not written to any more.
type Budget struct {
	max  int64
	held atomic.Int64

	mu      sync.Mutex
	cachers map[*Cacher]struct{} // guarded by mu
}

// NewBudget returns a Budget of max bytes.
func NewBudget(max int64) *Budget {
	return &Budget{max: max, cachers: map[*Cacher]struct{}{}}
}

// Held returns how many bytes the events and states of all cachers keep alive.
func (b *Budget) Held() int64 { return b.held.Load() }

// Max returns how many bytes they may keep alive.
func (b *Budget) Max() int64 { return b.max }

// join makes b bound the events of c; leave must follow.
func (b *Budget) join(c *Cacher) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cachers[c] = struct{}{}
}

// leave ends what join began. c gets no more events; its watchers may still read those that there are.
func (b *Budget) leave(c *Cacher) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.cachers[c]; ok {
		delete(b.cachers, c)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ring.release()
	}
}

// slack is the part of the budget that is freed at once, so that a budget which is used up does not make every write
// look at all cachers.
const slack = 64

// settle makes cachers forget events until they are within the budget. The caller holds no cacher's mutex.
func (b *Budget) settle() {
	if b == nil || b.held.Load() <= b.max || !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	spent := map[*Cacher]bool{} // they have nothing to forget
	for over := b.held.Load() - b.max; over > 0; over = b.held.Load() - b.max {
		var largest *Cacher
		var most int64
		for c := range b.cachers {
			if n := c.ring.bytes.Load(); n > most && !spent[c] {
				largest, most = c, n
			}
		}
		if largest == nil {
			return
		}
		spent[largest] = !largest.forget(max(min(over, most/2), b.max/slack))
	}
}

// forget frees so many bytes of the oldest events, or what may be forgotten. It reports whether any was.
func (c *Cacher) forget(bytes int64) bool {
	defer c.measured()
	left := c.ring.bytes.Load() - bytes
	dropped := c.kept.shed(left / snapshotShare)
	c.mu.Lock()
	before := c.ring.head
	c.resizedLocked(c.ring.trim(left))
	head := c.ring.head
	c.mu.Unlock()
	c.revokeViews(head)
	return dropped || head != before
}
