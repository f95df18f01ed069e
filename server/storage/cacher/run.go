package cacher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"weir.dev/weir/server/storage"
)

// Pauses between attempts to list or to watch; the first retry after a success is immediate.
const (
	firstBackoff   = 20 * time.Millisecond
	longestBackoff = 2 * time.Second
)

// maxEvents bounds how many events are taken in under one lock.
const maxEvents = 1024

// portions is in how many parts at least what fills a ring is taken in, so that those who keep up see it before it is
// forgotten.
const portions = 8

// errRefill says that the cache must be filled anew.
var errRefill = errors.New("cache must be filled again")

// run fills the cache and follows the storage until ctx is done.
func (c *Cacher) run(ctx context.Context) {
	defer c.connected.Store(false)
	filled := false
	for failures := 0; ctx.Err() == nil; {
		var err error
		filled = filled && !c.suspect.Load()
		if !filled {
			if err = c.fill(ctx); err == nil {
				filled = true
				continue
			}
			c.metrics.initErrors.Inc()
			if storage.CodeOf(err) == storage.ErrCodeCorruptObj {
				c.config.Logger.Error("stored objects cannot be read", "resource", c.config.Resource.String(), "err", err)
				c.awaitRepair(ctx, err, failures)
				failures++
				continue
			}
		} else {
			var progressed bool
			since := c.config.Clock.Now()
			progressed, err = c.follow(ctx)
			switch code := storage.CodeOf(err); {
			case code == storage.ErrCodeExpired || errors.Is(err, errRefill):
				filled = false
			case code == storage.ErrCodeCorruptObj:
				// The same revision would end the next watch too. A list says which
				// objects cannot be read, and reads go to the storage until it succeeds.
				filled = false
				c.setReady(false)
				c.endWatchers(err)
			case progressed || c.config.Clock.Since(since) > longestBackoff:
				failures = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelInfo
		switch {
		case errors.Is(err, errStuck):
			level = slog.LevelWarn
		case failures > 0:
			level = slog.LevelDebug // it has been said
		}
		c.config.Logger.Log(ctx, level, "watch cache restarts", "resource", c.config.Resource.String(), "fill", !filled, "err", err)
		if failures > 0 {
			c.sleepFor(ctx, backoff(failures))
		}
		failures++
	}
}

// backoff returns the pause after a number of failures in a row.
func backoff(failures int) time.Duration {
	pause := longestBackoff
	if failures < 8 {
		pause = min(firstBackoff<<(failures-1), longestBackoff)
	}
	return pause/2 + rand.N(pause/2)
}

func (c *Cacher) sleepFor(ctx context.Context, pause time.Duration) {
	timer := c.config.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// follow watches from where the cache is until the watch ends. It reports whether
// anything came.
func (c *Cacher) follow(ctx context.Context) (progressed bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	select {
	case <-c.refill: // of the time before the last fill
	default:
	}
	if c.suspect.Load() {
		return false, errRefill
	}
	// Deferred before Stop, so that the refill is not awaited any more.
	done := make(chan struct{})
	defer func() { cancel(nil); <-done }()
	go func() {
		defer close(done)
		select {
		case <-c.refill:
			cancel(errRefill)
		case <-ctx.Done():
		}
	}()

	c.following.Store(&cancel)
	defer c.following.Store(nil)
	watcher, err := c.config.Storage.Watch(ctx, c.config.Prefix, storage.ListOptions{
		ResourceVersion: storage.FormatResourceVersion(c.rv.Load()),
		Recursive:       true,
		Progress:        true,
		Bare:            true,
		Predicate: storage.SelectionPredicate{
			Label:               storage.Everything.Label,
			Field:               storage.Everything.Field,
			GetAttrs:            c.config.GetAttrs,
			AllowWatchBookmarks: true,
		},
	})
	if err != nil {
		return false, cause(ctx, err)
	}
	defer watcher.Stop()
	c.connected.Store(true)
	defer func() {
		c.connected.Store(false)
		c.advanced.fire(0)
	}()
	if c.waiters.Load() > 0 {
		c.requestProgress()
	}
	for {
		events, err := watcher.Next(ctx)
		if err != nil {
			return progressed, cause(ctx, err)
		}
		progressed = true
		for len(events) > 0 {
			n := portion(events, c.config.RingBytes/portions)
			if err := c.apply(events[:n]); err != nil {
				return true, err
			}
			events = events[n:]
		}
	}
}

// portion returns how many of events, of some bytes, to take in at once: no revision is torn apart. A lease that
// expires removes all its rows at one.
func portion(events []storage.Event, bytes int64) int {
	n := 0
	for n < len(events) && n < maxEvents && (n == 0 || bytes > 0) {
		bytes -= int64(events[n].Row.Value.Len())
		n++
	}
	for n < len(events) && events[n].Row.ResourceVersion == events[n-1].Row.ResourceVersion {
		n++
	}
	return n
}

// cause returns why ctx was cancelled, where that is why err came.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); errors.Is(why, errRefill) || errors.Is(why, errStuck) {
		return why
	}
	return err
}

// apply takes in what the storage's watch says.
func (c *Cacher) apply(events []storage.Event) error {
	// What can be done before the lock is taken.
	last := c.rv.Load()
	batch := make([]*event, 0, len(events))
	for i := range events {
		e := &events[i]
		rv := e.Row.ResourceVersion
		if e.Type == storage.Bookmark {
			last = max(last, rv)
			continue
		}
		// Two rows of one revision come together or not at all; anything else that is not
		// above what was seen is not a continuation of it.
		if rv < last || rv == last && len(batch) == 0 {
			return fmt.Errorf("%w: event of revision %d after %d", errRefill, rv, last)
		}
		last = rv
		suffix, ok := c.suffix(e.Row.Key, false)
		if !ok || suffix == "" {
			return fmt.Errorf("%w: event of the foreign key %q", errRefill, e.Row.Key)
		}
		if e.Type == storage.Deleted {
			batch = append(batch, &event{kind: removal, rv: rv, cur: &element{row: e.Row, base: uint16(len(c.config.Prefix))}})
		} else {
			batch = append(batch, &event{kind: put, rv: rv, cur: c.element(e.Row)})
		}
	}
	c.commit(batch, last)
	c.metrics.eventsReceived.Add(float64(len(batch)))
	return nil
}

// element makes the element of a row. A row whose attributes cannot be read is kept:
// it has the name and namespace that its key tells, and no labels.
func (c *Cacher) element(row storage.Row) *element {
	base := len(c.config.Prefix)
	labels, fields, err := c.config.GetAttrs(row.Value.Bytes())
	row = row.Compact()
	if err != nil {
		c.config.Logger.Error("attributes of an object cannot be read", "resource", c.config.Resource.String(), "key", row.Key, "err", err)
		el := newElement(row, base, nil, nil)
		el.keyName, el.keyNamespace = true, true
		return el
	}
	return newElement(row, base, labels, fields)
}

// commit applies a batch to the rows and the ring, advances to rv and wakes who waits.
func (c *Cacher) commit(batch []*event, rv uint64) {
	now := c.config.Clock.Now()
	c.kept.expire(now)
	c.mu.Lock()
	kept := batch[:0]
	for _, e := range batch {
		e.at = now.UnixNano()
		switch e.kind {
		case put:
			e.prev = c.rows.set(e.cur.suffix(), e.cur)
		case removal:
			if e.prev = c.rows.set(e.cur.suffix(), nil); e.prev == nil {
				// Nobody was told of it, so nobody needs to be told that it is gone.
				continue
			}
			e.bury()
		}
		c.appendLocked(e)
		kept = append(kept, e)
	}
	if len(kept) > 0 {
		c.frozen = nil
		c.dropIndexesLocked(now)
	}
	c.ring.publish()
	moved := rv != c.rv.Load()
	c.rv.Store(rv)
	head := c.ring.head
	c.mu.Unlock()

	c.pending.forget(rv)
	c.hub.publish(kept)
	c.revokeViews(head)
	c.kept.wrote(len(kept), rv)
	if len(kept) > 0 {
		c.measured()
		c.config.Budget.settle()
	}
	if moved {
		c.advanced.fire(0)
		c.metrics.resourceVersion.Set(float64(rv % 1e15))
	}
	c.metrics.eventsDispatched.Add(float64(len(kept)))
}

// measured tells the memory of the ring.
func (c *Cacher) measured() {
	c.metrics.ringBytes.Set(float64(c.ring.bytes.Load()))
	c.metrics.ringLimit.Set(float64(c.config.RingBytes))
}

// appendLocked adds an event to the ring.
func (c *Cacher) appendLocked(e *event) {
	c.resizedLocked(c.ring.append(e))
}

// resizedLocked counts steps of the ring's capacity.
func (c *Cacher) resizedLocked(steps int) {
	switch {
	case steps > 0:
		c.metrics.capacityIncrease.Add(float64(steps))
	case steps < 0:
		c.metrics.capacityDecrease.Add(float64(-steps))
	default:
		return
	}
	c.metrics.capacity.Set(float64(len(c.ring.slots.Load().at)))
}

// endWatchers ends all who watch now with err, once they have read what came before.
func (c *Cacher) endWatchers(err error) {
	c.commitCut(err, c.rv.Load(), nil)
}

// commitCut puts a cut into the ring, replaces the rows unless rows is nil, and sets rv.
func (c *Cacher) commitCut(err error, rv uint64, rows *tree) {
	e := &event{kind: cut, rv: rv, err: err, at: c.config.Clock.Now().UnixNano()}
	c.mu.Lock()
	old := c.rows
	if rows != nil {
		c.ring.replaced(old, *rows)
		c.rows, c.frozen = *rows, nil
	}
	c.appendLocked(e)
	c.ring.publish()
	c.rv.Store(rv)
	head := c.ring.head
	c.mu.Unlock()
	c.pending.forget(rv)
	c.hub.publish([]*event{e})
	c.revokeViews(head)
	if rows != nil {
		c.kept.replaced(old, *rows, rv)
	}
	c.advanced.fire(0)
	c.metrics.resourceVersion.Set(float64(rv % 1e15))
}
