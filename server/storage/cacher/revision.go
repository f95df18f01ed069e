package cacher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir.dev/weir/server/storage"
)

// flights share the question for the storage's revision. The answer must be at least
// that of every write acknowledged before the call, so a call may not join a flight that
// has taken off: it takes off itself if none is in the air, else it boards the next,
// which takes off when the one in the air lands.
type flights struct {
	mu     sync.Mutex
	inAir  bool    // guarded by mu
	next   *flight // guarded by mu
	cancel context.CancelFunc
}

// flight is one question for several.
type flight struct {
	landed chan struct{}
	rv     uint64
	err    error
}

// stop cancels the flight that its passengers wait for.
func (f *flights) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancel != nil {
		f.cancel()
	}
}

// currentRevision returns a revision at least that of every write acknowledged before
// the call. With errStale it is below one that the cache has seen, or was told of before.
func (c *Cacher) currentRevision(ctx context.Context) (uint64, error) {
	f := &c.flights
	f.mu.Lock()
	if !f.inAir {
		f.inAir = true
		f.mu.Unlock()
		return c.fly(ctx)
	}
	if f.next == nil {
		f.next = &flight{landed: make(chan struct{})}
	}
	mine := f.next
	f.mu.Unlock()
	select {
	case <-mine.landed:
		return mine.rv, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// fly asks, then lets the next flight take off.
func (c *Cacher) fly(ctx context.Context) (uint64, error) {
	before := max(c.rv.Load(), c.told.highest.Load())
	rv, err := c.config.Storage.GetCurrentResourceVersion(ctx)
	if err == nil && rv < before {
		c.lostRevisions(before, rv)
		err = errStale
	}
	if err == nil {
		c.told.hear(rv)
	}
	f := &c.flights
	f.mu.Lock()
	next := f.next
	f.next, f.cancel = nil, nil
	f.inAir = next != nil
	f.mu.Unlock()
	if next == nil {
		return rv, err
	}
	if !c.spawn(func() { c.carry(context.WithoutCancel(ctx), next) }) {
		c.carry(ctx, next)
	}
	return rv, err
}

// carry flies for all who boarded next.
func (c *Cacher) carry(ctx context.Context, next *flight) {
	ctx, cancel := context.WithTimeout(ctx, c.config.FreshTimeout)
	defer cancel()
	c.flights.mu.Lock()
	c.flights.cancel = cancel
	c.flights.mu.Unlock()
	if c.isStop.Load() {
		cancel()
	}
	next.rv, next.err = c.fly(ctx)
	close(next.landed)
}

// lostRevisions has the cache filled again: the storage answers with a revision below
// one that the cache has seen, or that it has said before, so it was restored from an earlier state.
func (c *Cacher) lostRevisions(seen, current uint64) {
	c.config.Logger.Warn("storage went back in time", "resource", c.config.Resource.String(), "seen", seen, "current", current)
	c.suspect.Store(true) // a row of a revision that is used again may be another
	select {
	case c.refill <- struct{}{}:
	default:
	}
}

// errStale says that the cache did not reach a revision in time.
var errStale = errors.New("cache is behind")

// waitFor waits until the cache reflects rv: errStale after limit, and for a caller that
// can do without the cache also when it does not follow its storage.
func (c *Cacher) waitFor(ctx context.Context, rv uint64, limit time.Duration, without bool) error {
	if c.rv.Load() >= rv {
		return nil
	}
	started := c.config.Clock.Now()
	defer func() { c.metrics.readWait.Observe(c.config.Clock.Since(started).Seconds()) }()
	return c.reach(ctx, rv, limit, without)
}

// reach is waitFor for what is no read.
func (c *Cacher) reach(ctx context.Context, rv uint64, limit time.Duration, without bool) error {
	c.waiters.Add(1)
	defer c.waiters.Add(-1)
	c.requestProgress()
	timer := c.config.Clock.NewTimer(limit)
	defer timer.Stop()
	for {
		g := c.advanced.arm()
		if c.rv.Load() >= rv {
			return nil
		}
		if without && !c.fresh() {
			return errStale
		}
		select {
		case <-g.fired:
		case <-timer.C():
			return errStale
		case <-c.stopped:
			return errStale
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// waitCurrent waits until the cache reflects the storage's revision of now.
func (c *Cacher) waitCurrent(ctx context.Context, limit time.Duration, without bool) error {
	rv, err := c.currentRevision(ctx)
	if err != nil {
		return err
	}
	return c.waitFor(ctx, rv, limit, without)
}

// requestProgress has the storage tell the watch its revision, soon and without waiting.
func (c *Cacher) requestProgress() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// askProgress asks at once when kicked, and again for as long as someone waits: the
// storage may drop a question while a watch is not level with it. The pause paces
// questions only, so it is not of the injected clock.
func (c *Cacher) askProgress(ctx context.Context) {
	const firstPause, longestPause, longestAsk = 5 * time.Millisecond, 100 * time.Millisecond, time.Second
	pause := time.NewTimer(longestPause)
	pause.Stop()
	defer pause.Stop()
	for {
		select {
		case <-c.kick:
		case <-ctx.Done():
			return
		}
		for wait := firstPause; ; wait = min(2*wait, longestPause) {
			if c.connected.Load() {
				// A failure shows in the watch itself. One that takes nothing any more must not hold up the next.
				asking, cancel := context.WithTimeout(ctx, longestAsk)
				_ = c.config.Storage.RequestWatchProgress(asking)
				cancel()
			}
			if c.waiters.Load() == 0 {
				break
			}
			pause.Reset(wait)
			select {
			case <-pause.C:
			case <-c.kick:
			case <-ctx.Done():
				return
			}
			if c.waiters.Load() == 0 {
				break
			}
		}
	}
}

// tooLarge is the error of a read at a revision in the future.
func (c *Cacher) tooLarge(rv uint64) error {
	current := c.rv.Load()
	return &storage.Error{
		Code:            storage.ErrCodeResourceVersionTooLarge,
		ResourceVersion: current,
		Message:         fmt.Sprintf("Too large resource version: %d, current: %d", rv, current),
	}
}
