package cacher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// stuckLook is the time between looks at whether the watch of the storage keeps up, give or take a half.
	stuckLook = 5 * time.Second
	// stuckLimit is how long a watch may be behind a revision that the storage has given, and come no nearer.
	stuckLimit = 5 * time.Second
	// quietLooks is at how many looks in a row nothing may have been heard of the storage's revision before it is asked,
	// or the one that others have heard is looked at, when an event has come lately. It doubles with each question, so often,
	// until the next event comes: most caches are of resources that are hardly ever written to, and together they would
	// ask many questions. What others have heard asks nothing; then the watch is asked for progress where they write.
	quietLooks      = 3
	quietDoublings  = 3
	sharedDoublings = 1
	// longestStuckPause bounds the time that a watch has at least, which doubles with each before it that was stuck: a
	// storage that is merely slow is given the time that it needs.
	longestStuckPause = 5 * time.Minute
)

// errStuck ends a watch of the storage that is open and tells nothing, while the storage answers.
var errStuck = errors.New("watch of the storage is stuck")

// told is what the storage has said of its revision, in answers and not by its watch.
type told struct {
	// highest is the highest revision, times counts the answers.
	highest, times atomic.Uint64
}

// hear notes an answer.
func (t *told) hear(rv uint64) {
	t.times.Add(1)
	raise(&t.highest, rv)
}

// raise makes highest rv unless it is more.
func raise(highest *atomic.Uint64, rv uint64) {
	for {
		was := highest.Load()
		if rv <= was || highest.CompareAndSwap(was, rv) {
			return
		}
	}
}

// unstick begins the watch of the storage anew, until ctx is done, when it stays behind what the storage answers. It
// goes on where the cache is, so that nothing is lost or listed; see fill.
func (c *Cacher) unstick(ctx context.Context) {
	quiet, asked, stuck := 0, 0, 0
	var times, last, events uint64
	var until time.Time // the watch of now has time until then
	for c.pause(ctx, stuckPause(0)) {
		at, watch, heard := c.rv.Load(), c.following.Load(), uint64(0)
		if watch == nil || !c.isReady.Load() {
			continue
		}
		if tail := c.ring.tail.Load(); tail != events {
			events, asked = tail, 0
		}
		switch {
		case at != last: // the watch has told something
			last, quiet = at, 0
		case c.told.highest.Load() <= at && c.told.times.Load() == times:
			if quiet++; quiet < quietLooks<<asked {
				break
			}
			quiet = 0
			if c.config.Revision != nil {
				// It is not noted: where the storage was restored since, it is of the time before.
				heard = c.config.Revision()
			}
			if heard > 0 {
				asked = min(asked+1, sharedDoublings)
				break
			}
			_, _ = c.askRevision(ctx) // what it says is heard
			asked = min(asked+1, quietDoublings)
		}
		if now := c.told.times.Load(); now != times {
			times, quiet = now, 0
		}
		highest := max(c.told.highest.Load(), heard)
		if highest <= at {
			stuck, until = 0, time.Time{}
			continue
		}
		if c.config.Clock.Now().Before(until) {
			c.requestProgress()
			continue
		}
		err := c.reach(ctx, highest, stuckLimit, false)
		if err == nil || c.rv.Load() != at {
			stuck, until = 0, time.Time{}
		}
		if err == nil {
			continue
		}
		// Asked also where the cache came nearer: highest may be of before the storage was restored, which ends with a
		// new list, and until then each look would wait for it.
		rv, err := c.askRevision(ctx)
		if err == nil && at < rv && rv < highest {
			// What it was waited for is not there. The storage may have come to this revision just now.
			_ = c.reach(ctx, rv, stuckLimit, false)
		}
		if err != nil || rv <= at || c.following.Load() != watch || c.rv.Load() != at {
			continue
		}
		stuck++
		until = c.config.Clock.Now().Add(stuckPause(stuck))
		c.metrics.watchRestarts.Inc()
		(*watch)(fmt.Errorf("%w at revision %d, the storage is at %d", errStuck, at, rv))
	}
}

// stuckPause returns the time that a watch has after so many in a row that were stuck.
func stuckPause(stuck int) time.Duration {
	pause := min(stuckLook<<min(stuck, 10), longestStuckPause)
	return pause/2 + rand.N(pause)
}

// askRevision is currentRevision for who does not wait long.
func (c *Cacher) askRevision(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.FreshTimeout)
	defer cancel()
	return c.currentRevision(ctx)
}
