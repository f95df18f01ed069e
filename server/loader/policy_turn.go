package loader

import (
	"context"
	"errors"
	"time"
)

// turnPatience is how long something may block before the turn is given up for it.
const turnPatience = 50 * time.Millisecond

// impactTurn is the turn of one question. One goroutine uses it.
type impactTurn struct {
	of   chan struct{}
	held bool
}

var errNoTurn = errors.New("it is another's turn")

// take waits for the turn until ctx ends, or, where wait is not 0, so long.
func (t *impactTurn) take(ctx context.Context, wait time.Duration) error {
	var late <-chan time.Time
	if wait != 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case t.of <- struct{}{}:
		t.held = true
		return nil
	case <-late:
	case <-ctx.Done():
	}
	return errNoTurn
}

// give gives the turn up where it is held.
func (t *impactTurn) give() {
	if t.held {
		t.held = false
		<-t.of
	}
}

// whileBlocked calls do, and gives the turn up when that takes long. It has the turn again when it returns, unless ctx has
// ended.
func (t *impactTurn) whileBlocked(ctx context.Context, do func() error) error {
	if !t.held {
		return do()
	}
	given := make(chan struct{})
	timer := time.AfterFunc(turnPatience, func() {
		<-t.of // held, so that this does not block
		close(given)
	})
	err := do()
	if timer.Stop() {
		return err
	}
	<-given
	t.held = false
	if err == nil {
		_ = t.take(ctx, 0) // whoever counts sees for itself that ctx has ended
	}
	return err
}
