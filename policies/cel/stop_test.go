package cel

import (
	"context"
	"sync/atomic"
)

// countdown is a context that is cancelled when it has been asked n times whether it is.
type countdown struct {
	context.Context
	left atomic.Int64
	done chan struct{}
}

// Done implements context.Context.
func (c *countdown) Done() <-chan struct{} {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
	return c.done
}

// Err implements context.Context.
func (c *countdown) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}
