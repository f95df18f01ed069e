package host

import (
	"sync/atomic"
	"time"
)

// Budget is what the guests of one request may use together, beside the fuel
// that calls with large inputs get in addition (see [Limits]). It is safe for
// concurrent use.
type Budget struct {
	left     atomic.Int64
	deadline time.Time
}

// NewBudget returns a budget of fuel units until a deadline; the zero time is
// none.
func NewBudget(fuel uint64, deadline time.Time) *Budget {
	b := &Budget{deadline: deadline}
	b.left.Store(int64(min(fuel, 1<<62)))
	return b
}

// Fuel is how many units are left.
func (b *Budget) Fuel() uint64 { return uint64(max(0, b.left.Load())) }

// Deadline is when the budget ends; zero means never.
func (b *Budget) Deadline() time.Time { return b.deadline }

func (b *Budget) take(n int64) { b.left.Add(-n) }
