package cacher

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// idleLooks is how many looks in a row must find a cache unused before it is stopped.
const idleLooks = 4

// usage counts who uses the rows of a cache, so that they are not taken away under anybody. Everything that reads
// the tree or the ring is between enter and leave; a watcher is so from Watch to Stop.
type usage struct {
	// users is below zero while the rows are being taken away.
	users   atomic.Int64
	touched atomic.Bool
	// holders are the users that are no use of the cache.
	holders atomic.Int64
	// leaving is held while the rows are taken away.
	leaving sync.Mutex
}

// away is added to users while the rows are taken away.
const away = math.MinInt64 / 2

// enter must be followed by leave. It waits while the rows are being taken away: who has entered finds the
// cache either as it was or not started.
func (u *usage) enter() {
	u.touch()
	u.wait()
}

// hold is enter for what is not a use of the cache, such as counting its rows: a look is not disturbed by it, however
// often both meet. It must be followed by release.
func (u *usage) hold() {
	u.holders.Add(1)
	u.wait()
}

func (u *usage) release() {
	u.leave()
	u.holders.Add(-1)
}

func (u *usage) wait() {
	for u.users.Add(1) <= 0 {
		u.users.Add(-1)
		u.leaving.Lock()
		u.leaving.Unlock() //nolint:staticcheck // to have waited is all
	}
}

func (u *usage) leave() { u.users.Add(-1) }

// used reports whether the cache was of use since the last look, or is.
func (u *usage) used() bool {
	touched := u.touched.Swap(false)
	return touched || u.users.Load() > u.holders.Load()
}

// touch says that the cache is of use.
func (u *usage) touch() {
	if !u.touched.Load() {
		u.touched.Store(true)
	}
}

// unused calls take if nobody uses the rows, and keeps others out meanwhile.
func (u *usage) unused(take func()) bool {
	u.leaving.Lock()
	defer u.leaving.Unlock()
	if !u.users.CompareAndSwap(0, away) {
		return false
	}
	take()
	u.users.Add(-away)
	return true
}

// stopIdle stops the cache when nobody has used it for the idle timeout.
func (c *Cacher) stopIdle() {
	timer := c.config.Clock.NewTimer(c.config.IdleTimeout / idleLooks)
	defer timer.Stop()
	for quiet := 0; ; {
		select {
		case <-timer.C():
		case <-c.stopped:
			return
		}
		timer.Reset(c.config.IdleTimeout / idleLooks)
		if c.usage.used() {
			quiet = 0
			continue
		}
		if quiet++; quiet >= idleLooks && c.usage.unused(c.sleep) {
			return
		}
	}
}

// sleep makes the cache what it was before its start. There must be no users: no watcher, so that nobody can miss
// an event, and no read.
//
// # Why no event is lost or repeated
//
// A watcher keeps the cache from sleeping, so that every stream is of one start of the cache. A client whose
// watch has ended comes back with a revision N. The next start lists at a revision B, and its ring begins there; N is
// below B, or in the future of the cache. A watch from below the ring's floor reads what follows N from the storage up to
// where the ring goes on, as after any start of the process, and one in the future waits. Neither
// depends on what an earlier start has seen.
func (c *Cacher) sleep() {
	c.lifecycle.Lock()
	if c.isStop.Load() {
		c.lifecycle.Unlock()
		return
	}
	c.cancel()
	c.lifecycle.Unlock()
	c.session.Wait()

	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	if c.isStop.Load() {
		return
	}
	c.started = false
	if c.isReady.Swap(false) {
		c.filled = make(chan struct{})
	}
	c.trouble.Store(nil)
	c.mu.Lock()
	rows := c.rows.Len()
	c.rows, c.frozen = newTree(), nil
	c.kept.clear()
	c.ring.init(c.ring.min, c.ring.max, c.ring.maxBytes)
	c.hub.forget()
	c.rv.Store(0)
	c.mu.Unlock()
	c.pending.clear()
	c.told.highest.Store(0)
	c.indexing.clear()
	c.metrics.idleStops.Inc()
	c.metrics.running.Add(-1)
	c.metrics.capacity.Set(float64(c.ring.min))
	c.metrics.ringBytes.Set(0)
	c.metrics.indexes.Set(0)
	c.config.Logger.Info("watch cache stopped as nobody uses it", "resource", c.config.Resource.String(), "objects", rows)
}

// Running reports whether the cache has been started: rows are held or about to be.
func (c *Cacher) Running() bool {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	return c.started && !c.isStop.Load()
}

// launchLocked starts the goroutines of a start of the cache.
func (c *Cacher) launchLocked(ctx context.Context) {
	for _, work := range []func(context.Context){c.run, c.deliver, c.askProgress, c.unstick, c.checkNowAndThen} {
		c.session.Go(func() { work(ctx) })
	}
	if c.config.IdleTimeout > 0 {
		c.work.Go(c.stopIdle)
	}
}

// pause waits, and reports whether ctx is still not done then.
func (c *Cacher) pause(ctx context.Context, d time.Duration) bool {
	c.sleepFor(ctx, d)
	return ctx.Err() == nil
}

// Ready reports whether the cache holds rows.
func (c *Cacher) Ready() bool { return c.isReady.Load() }
