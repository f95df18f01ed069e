package cacher

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir.dev/weir/server/storage"
)

// Watch implements storage.Interface. When ctx is done, the watcher ends with io.EOF.
// That a revision is too old is said by the watcher's Next, and only when it is so for
// the storage too, or so many others read from there that the watcher's turn does not come in
// half a minute: events that the cache does not have any more, or not yet, as after a
// start, are read from the storage up to where the cache goes on. A watcher that reads from
// there must be asked for events again and again, else it ends with io.EOF.
//
// Objects that cannot be read end the watches of their keys, and those begun until they are repaired, with
// ErrCodeCorruptObj. Others end with io.EOF when one is found, and are watches of the storage until then: so many as may read
// the past from there, more fail with storage.ErrCodeNotReady.
func (c *Cacher) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	start, ok := c.suffix(key, opts.Recursive)
	if !ok {
		return c.config.Storage.Watch(ctx, key, opts)
	}
	rv, err := storage.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	c.usage.enter()
	w, err := c.watch(ctx, key, start, rv, opts)
	switch {
	case err == nil:
		w.holds = true
		return w, nil
	case storage.CodeOf(err) == storage.ErrCodeCorruptObj:
		c.usage.leave()
		f := newFilter(start, !opts.Recursive, opts.Predicate)
		if err := c.concerning(&f, err); err != nil {
			return &ended{err}, nil
		}
		// What is watched may be readable; else the storage names what is not.
		opts.Progress = opts.Progress || opts.Predicate.AllowWatchBookmarks
		opts.Predicate.GetAttrs = c.config.GetAttrs
		return c.watchStorage(ctx, key, opts)
	default:
		c.usage.leave()
		return nil, err
	}
}

// watch makes a watcher that begins after rv.
func (c *Cacher) watch(ctx context.Context, key, start string, rv uint64, opts storage.ListOptions) (_ *watcher, err error) {
	if err := c.awaitReady(ctx); err != nil {
		return nil, err
	}
	sendInitial := rv == 0
	if opts.SendInitialEvents != nil {
		sendInitial = *opts.SendInitialEvents
	}
	switch {
	case opts.ResourceVersion == "":
		err = c.waitCurrent(ctx, c.config.FreshTimeout, false)
		if timedOut(err) && ctx.Err() == nil {
			// Many share one question; a watch has nowhere else to go, and time.
			err = c.waitCurrent(ctx, c.config.FreshTimeout, false)
		}
		if errors.Is(err, errStale) {
			err = c.notReady()
		}
	case sendInitial && rv > 0:
		err = c.waitFor(ctx, rv, c.config.FreshTimeout, false)
		if errors.Is(err, errStale) {
			err = c.tooLarge(rv)
		}
	}
	if err != nil {
		return nil, err
	}
	w := &watcher{
		cacher:    c,
		filter:    newFilter(start, !opts.Recursive, opts.Predicate),
		ended:     ctx.Done(),
		stop:      make(chan struct{}),
		bookmarks: opts.Predicate.AllowWatchBookmarks || opts.Progress,
		progress:  opts.Progress,
		asked:     c.asked.Load(),
	}
	w.deadline, _ = ctx.Deadline()
	w.plan()
	// From here on the topic is fired for what the ring gets.
	w.topic = c.hub.join(w.filter.topic())
	if !w.begin(rv, sendInitial) {
		if err := w.catchUp(ctx, key, opts); err != nil {
			w.Stop()
			return nil, err
		}
	}
	w.endBookmark = sendInitial && opts.SendInitialEvents != nil && w.bookmarks
	return w, nil
}

// timedOut reports whether a question to the storage took longer than it might.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || storage.CodeOf(err) == storage.ErrCodeTimeout
}

// ended is a watcher that ends with an error before its first event.
type ended struct{ err error }

// Next implements storage.Watcher.
func (w *ended) Next(context.Context) ([]storage.Event, error) { return nil, w.err }

// Stop implements storage.Watcher.
func (w *ended) Stop() {}

// begin places the cursor. It is false when the ring does not have what follows rv.
func (w *watcher) begin(rv uint64, sendInitial bool) bool {
	c := w.cacher
	if sendInitial {
		v := c.snapshotFor(&w.filter)
		w.initial, w.sends = c.views.hold(v, w.topic), true
		w.next = v.next
		w.last = v.rv
		w.from = w.filter.start
		return true
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	current := c.rv.Load()
	w.after, w.last = rv, rv
	switch {
	case rv == 0:
		w.next = c.ring.next
		w.last = current
	case rv > current:
		w.next = c.ring.next
	case rv < c.ring.floor.Load():
		return false
	default:
		w.next = c.ring.after(rv)
	}
	return true
}

const (
	// maxBatch bounds what Next returns at once, but for the events of one revision.
	maxBatch = 256
	// maxBatchBytes bounds it in bytes, but for its last object: what a watcher holds whose client takes nothing, nobody else
	// may have any more.
	maxBatchBytes = 1 << 20
	// nudgeLead is how long before a bookmark the storage is asked for its revision.
	nudgeLead = 500 * time.Millisecond
	// deadlineLead is how long before its deadline a watch gets a last bookmark.
	deadlineLead = 2 * time.Second
)

// ownBatch is what a watcher that looks itself takes at once.
var ownBatch = batchLimit{events: maxBatch, bytes: maxBatchBytes}

// watcher implements storage.Watcher: a cursor on the ring of its cacher.
type watcher struct {
	cacher *Cacher
	filter filter
	topic  *topic
	// ended is closed when the context of Watch is done.
	ended <-chan struct{}
	stop  chan struct{}
	once  sync.Once
	// holds: Watch has returned it, so that it keeps the cache from being stopped.
	holds bool

	// next is the seq of the first event that has not been looked at.
	next uint64
	// after is the revision that was asked for: events up to it are not sent.
	after uint64
	// last is the highest revision that was sent or asked for; bookmarks do not go below.
	last uint64
	// initial is the state to send first, nil where there is none. sends: it is not sent yet; from is where it goes on.
	initial *heldView
	sends   bool
	from    string
	// endBookmark: the end of the initial state is marked.
	endBookmark bool
	// past gives the events before those in the ring, open begins it; both are nil when there are none to read.
	past storage.Watcher
	open func(next context.Context) error
	// turn is closed when past may be opened, which must be until turnBy; nil where the watcher has never had a past.
	turn   chan struct{}
	turnBy time.Time

	bookmarks bool
	// progress: bookmarks are sent also when progress was asked for; asked counts up to when.
	progress bool
	asked    uint64
	// due is when the next bookmark is sent; zero before the first plan.
	due      time.Time
	deadline time.Time
	nudged   bool
	timer    clockTimer
	rings    time.Time // when timer fires; zero: it has, or there is none

	err   error
	batch *[]storage.Event
	// returned: the batch is what Next has returned.
	returned bool

	// take is what events are given to while Next waits, nil where they are not. Then all that Next uses belongs to who
	// has mu, and that is Next but while it waits.
	take storage.Take
	mu   sync.Mutex
	// roused gets a value when Next must look itself. missed says that it must, or that delivery has more for it, and
	// that it has not looked since.
	roused chan struct{}
	missed atomic.Bool
	// waitsOn is what a taker waits for when it is not given events.
	waitsOn *generation
	// group is that of the takers that it is one of, once it is offered.
	group uint64
	// place is where it is in the group, from 1; 0: nowhere. guarded by mu of the hub
	place int
}

// clockTimer is the part of a clock's timer that is used.
type clockTimer interface {
	C() <-chan time.Time
	Stop() bool
	Reset(time.Duration) bool
}

// Next implements storage.Watcher.
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	if w.returned {
		w.release()
	}
	if err := w.gather(ctx); err != nil {
		return nil, err
	}
	w.returned = true
	return *w.batch, nil
}

// gather waits until there is a batch.
func (w *watcher) gather(ctx context.Context) error {
	if w.err != nil && w.batch == nil {
		return w.fail(w.err)
	}
	for {
		if err := w.over(ctx); err != nil {
			return err
		}
		if w.sends {
			if !w.sendInitial() {
				if err := w.over(ctx); err != nil {
					return err
				}
				w.cacher.metrics.terminated.Inc()
				return w.fail(w.tooOld())
			}
			if w.batch != nil {
				return nil
			}
			continue
		}
		if w.open != nil {
			if err := w.readPast(ctx); err != nil {
				return err
			}
			if w.batch != nil {
				return nil
			}
			continue
		}
		w.skip()
		w.collect(ownBatch)
		if w.batch == nil && w.err == nil {
			// Nothing is there. Look again with the topic armed, so that nothing can slip through.
			g := w.arm()
			progress := w.armProgress()
			rv := w.cacher.rv.Load()
			w.missed.Store(false)
			if w.collect(ownBatch); w.batch == nil && w.err == nil {
				if !w.bookmark(ctx, rv) {
					w.park(ctx, g, progress)
					continue
				}
			}
		}
		if w.batch == nil {
			return w.fail(w.err)
		}
		return nil
	}
}

// over returns why the watch is over, nil if it is not.
func (w *watcher) over(ctx context.Context) error {
	select {
	case <-w.stop:
		return w.fail(io.EOF)
	case <-w.cacher.stopped:
		return w.fail(io.EOF)
	case <-w.ended:
		return w.fail(io.EOF)
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

// fail makes err the end of the watch.
func (w *watcher) fail(err error) error {
	w.err = err
	w.sends = false
	if w.timer != nil {
		w.timer.Stop()
	}
	w.Stop() // frees what is held
	return err
}

// Stop implements storage.Watcher.
func (w *watcher) Stop() {
	w.once.Do(func() {
		close(w.stop)
		if w.initial != nil {
			w.cacher.views.drop(w.initial)
		}
		if w.turn != nil {
			w.cacher.leavePast(w)
		}
		w.cacher.hub.leave(w)
		if w.holds {
			w.cacher.usage.leave()
		}
	})
}

// add appends an event to the batch.
func (w *watcher) add(e storage.Event) {
	if w.batch == nil {
		w.batch, _ = w.cacher.batches.Get().(*[]storage.Event)
		if w.batch == nil {
			w.batch = new([]storage.Event)
		}
	}
	*w.batch = append(*w.batch, e)
}

// release gives the batch of the last Next back. A watcher that waits holds none.
func (w *watcher) release() {
	if w.batch == nil {
		return
	}
	clear(*w.batch)
	*w.batch = (*w.batch)[:0]
	w.cacher.batches.Put(w.batch)
	w.batch, w.returned = nil, false
}

// sendInitial takes the next part of the initial state. When there is no more, sends is false. It is false when the state
// has been taken away, and nothing is left to go on with.
func (w *watcher) sendInitial() bool {
	state := w.initial.view.Load()
	if state == nil {
		return false
	}
	sent, looked, size := 0, 0, 0
	more := false
	w.cacher.ascend(*state, &w.filter, w.from, func(el *element) bool {
		if w.filter.exact && el.suffix() != w.filter.start {
			return false
		}
		// The bound on what is looked at lets a stopped watch with a rare selector end.
		if sent == maxBatch || size >= maxBatchBytes || looked == 64*maxBatch {
			w.from = strings.Clone(el.suffix()) // a part of the key would keep the row as long as the watch is open
			more = true
			return false
		}
		looked++
		if w.filter.selected(el) {
			w.add(storage.Event{Type: storage.Added, Row: el.row})
			sent++
			size += el.row.Value.Len()
		}
		return true
	})
	w.cacher.metrics.initEvents.Add(float64(sent))
	w.cacher.wasted(&w.filter, state.rows, looked-sent)
	if more {
		return true
	}
	if w.endBookmark {
		w.add(storage.Event{Type: storage.Bookmark, Row: storage.Row{ResourceVersion: w.last}, InitialEventsEnd: true})
	}
	w.sends = false
	w.next = w.cacher.views.drop(w.initial)
	return true
}

// skip goes over events that are not for the watcher's topic, which the ring need not have any more.
func (w *watcher) skip() {
	announced := w.cacher.hub.announced.Load() // before the topic's, which then knows of all of those
	w.next = w.topic.skip(w.next, announced)
}

// batchLimit bounds a batch, but for the events of one revision.
type batchLimit struct{ events, bytes int }

// collect takes what the ring has for the watcher, up to a limit: then it is full, and there may be more. It sets err when
// the watch cannot go on; what came before is in the batch.
func (w *watcher) collect(limit batchLimit) (full bool) {
	if w.err != nil {
		return false
	}
	r, size := &w.cacher.ring, 0
	for tail := r.tail.Load(); w.next < tail; {
		e := r.get(w.next)
		if before := w.next; e == nil {
			if w.skip(); w.next > before {
				continue // what it has been overtaken by is not for it
			}
			// The storage may have what the ring has not: the next watch, from what this one has brought, looks.
			w.cacher.metrics.terminated.Inc()
			w.err = io.EOF
			w.untear()
			return false
		}
		if w.batch != nil && (len(*w.batch) >= limit.events || size >= limit.bytes) && e.rv != w.last {
			return true // not within a revision, from which a client could not go on
		}
		if e.kind == cut {
			w.err = e.err
			if storage.CodeOf(e.err) == storage.ErrCodeCorruptObj && w.cacher.concerning(&w.filter, e.err) == nil {
				w.err = io.EOF // the next watch, from what this one has brought, is one of the storage
			}
			return false
		}
		if e.rv > w.after {
			if out, ok := w.filter.event(e); ok {
				w.add(out)
				w.last = e.rv
				size += out.Row.Value.Len()
			}
		}
		w.next++
	}
	return false
}

// untear takes the events of the last revision out of the batch. The ring may have forgotten others of that revision just
// now, and whoever has seen one of them goes on behind it.
func (w *watcher) untear() {
	if w.batch == nil {
		return
	}
	events := *w.batch
	n := len(events)
	for n > 0 && events[n-1].Row.ResourceVersion == w.last {
		n--
	}
	clear(events[n:])
	*w.batch = events[:n]
	if n == 0 {
		w.release()
	}
}

// arm returns what fires at the next event, nil where that is given to the watcher.
func (w *watcher) arm() *generation {
	if w.take != nil && w.topic.many.Load() {
		return nil
	}
	return w.topic.arm()
}

// armProgress returns what fires when there may be progress that was asked for, nil for a watcher that does not tell.
func (w *watcher) armProgress() *generation {
	if !w.progress {
		return nil
	}
	if asking := w.cacher.asking.arm(); w.cacher.asked.Load() == w.asked {
		return asking // else each event of the cache would wake those that it does not concern
	}
	return w.cacher.advanced.arm()
}

// park waits until the topic fires, or something else ends the wait; g is that of arm, progress that of armProgress.
func (w *watcher) park(ctx context.Context, g, progress *generation) {
	// A select costs by its channels, and so does each of many watchers that one event wakes: Stop of the cacher fires
	// the topics, and most contexts are those of Watch.
	if w.cacher.isStop.Load() {
		return
	}
	done := ctx.Done()
	if done == w.ended {
		done = nil
	}
	var fired, advanced <-chan struct{}
	if g != nil {
		fired = g.fired
	}
	if progress != nil {
		advanced = progress.fired
	}
	alarm := w.alarm(ctx)
	if w.take != nil {
		w.waitsOn = g
		w.mu.Unlock()
	}
	select {
	case <-fired:
	case <-w.roused:
	case <-alarm:
		w.rings = time.Time{}
	case <-advanced:
	case <-w.stop:
	case <-w.ended:
	case <-done:
	}
	if w.take != nil {
		w.mu.Lock()
	}
	if g.hasFired() {
		// Nothing between what was looked at and the event of the firing is for this topic.
		w.next = max(w.next, g.first)
	}
}

// alarm returns the channel of a timer for the next bookmark, or for what goes before it.
func (w *watcher) alarm(ctx context.Context) <-chan time.Time {
	if !w.bookmarks {
		return nil
	}
	wake := w.dueWith(ctx)
	if !w.nudged {
		wake = wake.Add(-nudgeLead)
	}
	if wake.Equal(w.rings) {
		return w.timer.C()
	}
	w.rings = wake
	pause := max(wake.Sub(w.cacher.config.Clock.Now()), 0)
	if w.timer == nil {
		w.timer = w.cacher.config.Clock.NewTimer(pause)
	} else {
		w.timer.Stop()
		w.timer.Reset(pause)
	}
	return w.timer.C()
}
