package host

import (
	"sync/atomic"
	"time"
)

// Budget is what the guests of one request may use together, beside the fuel
// that calls with large inputs get in addition (see [Limits]). A module whose own
// limits of fuel or time are above those of the runtime is bounded by them in
// their place. It is safe for concurrent use.
type Budget struct {
	left     atomic.Int64
	total    atomic.Int64
	deadline time.Time
}

// NewBudget returns a budget of fuel units until a deadline; the zero time is
// none.
func NewBudget(fuel uint64, deadline time.Time) *Budget {
	b := &Budget{deadline: deadline}
	b.total.Store(int64(min(fuel, 1<<62)))
	b.left.Store(b.total.Load())
	return b
}

// widen makes the whole budget at least fuel units, for a module that has more
// than modules have by default.
func (b *Budget) widen(fuel uint64) {
	for {
		total := b.total.Load()
		if total >= int64(fuel) {
			return
		}
		if b.total.CompareAndSwap(total, int64(fuel)) {
			b.left.Add(int64(fuel) - total)
			return
		}
	}
}

// Fuel is how many units are left.
func (b *Budget) Fuel() uint64 { return uint64(max(0, b.left.Load())) }

// Deadline is when the budget ends; zero means never.
func (b *Budget) Deadline() time.Time { return b.deadline }

func (b *Budget) take(n int64) { b.left.Add(-n) }
