package cacher

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"

	"weir.dev/weir/server/storage"
)

const (
	// manyTakers is from how many watchers of a topic on that take events are given to them by one goroutine. Fewer
	// are woken: they are on other processors at once, and it costs little.
	manyTakers = 8
	// takersBetween is how many takers are given events before what is left to do for them is done.
	takersBetween = 1024
	// bytesBetween is how many bytes they are given before that for each processor, in whole groups: while it waits it is
	// in the processor's cache.
	bytesBetween = 128 << 10
	// laterShare is how much of what is left to do is worth a goroutine.
	laterShare = 4
)

// takenBatch bounds what a taker is given at a time. All takers of a topic get theirs before one gets more, so that they
// share what is made of an event; and a connection must be able to take it without waiting.
var takenBatch = batchLimit{events: 32, bytes: 64 << 10}

// delivery gives events to watchers that take them, see storage.Offerer, so that an event wakes one goroutine and not
// one for each watcher.
//
// # Why no event is missed
//
// A watcher holds its mu but while it waits. Before it lets go, it has looked at all that the ring shows. An event that
// the ring shows later fires what the watcher waits on, or makes its topic due: which of the two the watcher has asked
// before it looked. Each time that a topic is due all its takers are visited. One that waits is given what the ring has;
// one that does not is roused, and looks at the ring before it waits again.
//
// A visit may begin at the event that made the topic due, as long as the watcher has been given all that made it due
// before: not after a visit that left it something, or found it at work, unless it has looked itself since. One that has
// been woken and has not run yet begins at the event that woke it.
type delivery struct {
	wake chan struct{} // of one
	mu   sync.Mutex
	due  []*topic // guarded by mu; each once
}

// add makes a topic due, from the event seq on.
func (d *delivery) add(t *topic, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.isDue {
		return // from an earlier event on, and who was left something knows
	}
	t.isDue, t.first = true, seq
	d.due = append(d.due, t)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// visit is that a topic was due.
type visit struct {
	topic *topic
	first uint64
}

// take appends what is due, which then is not any more.
func (d *delivery) take(visits []visit) []visit {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, t := range d.due {
		visits = append(visits, visit{t, t.first})
		t.isDue = false
		d.due[i] = nil
	}
	d.due = d.due[:0]
	return visits
}

// deliver visits the takers of topics that are due, until ctx is done.
func (c *Cacher) deliver(ctx context.Context) {
	var visits []visit
	var takers []*watcher
	var later []func()
	most := bytesBetween * runtime.GOMAXPROCS(0)
	for {
		select {
		case <-c.hub.delivery.wake:
		case <-ctx.Done():
			return
		}
		visits = c.hub.delivery.take(visits[:0])
		visited, bytes := 0, 0
		for _, v := range visits {
			takers = c.hub.takers(v.topic, takers[:0])
			more := false
			for i, w := range takers {
				given := w.deliver(v.first)
				if given.later != nil {
					later = append(later, given.later)
				}
				more = more || given.more
				visited, bytes = visited+1, bytes+given.bytes
				ends := i+1 == len(takers) || takers[i+1].group != w.group
				if ends && bytes >= most || visited >= takersBetween {
					later = c.doAll(later)
					visited, bytes = 0, 0
				}
			}
			clear(takers)
			if more {
				c.hub.delivery.add(v.topic, v.first)
			}
		}
		clear(visits)
		later = c.doAll(later)
	}
}

// doAll does what is left, on as many processors as it is worth, and waits for it. It returns later emptied.
func (c *Cacher) doAll(later []func()) []func() {
	var others sync.WaitGroup
	shares := max(min(runtime.GOMAXPROCS(0), len(later)/laterShare), 1)
	size := (len(later) + shares - 1) / shares
	for begin := size; begin < len(later); begin += size {
		others.Go(func() { c.doEach(later[begin:min(begin+size, len(later))]) })
	}
	c.doEach(later[:size])
	others.Wait()
	clear(later)
	return later[:0]
}

func (c *Cacher) doEach(later []func()) {
	for _, do := range later {
		c.contain(do)
	}
}

// contain calls do, and reports whether it returned: a panic is its own, not that of all watchers.
func (c *Cacher) contain(do func()) (returned bool) {
	defer func() {
		if v := recover(); v != nil {
			c.config.Logger.Error("delivery of watch events panicked", "resource", c.config.Resource.String(), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	do()
	return true
}

// Offer implements storage.Offerer. A watcher whose selector is much work does it itself.
func (w *watcher) Offer(take storage.Take, group uint64) {
	if !w.filter.quick() {
		return
	}
	w.mu.Lock() // until it waits
	w.take = take
	w.roused = make(chan struct{}, 1)
	w.cacher.hub.offer(w, group)
}

// rouse makes a taker look at the ring itself: not all that was there for it has been given to it.
func (w *watcher) rouse() {
	w.missed.Store(true)
	select {
	case w.roused <- struct{}{}:
	default:
	}
}

// given is what a watcher was given.
type given struct {
	later func() // what is left to do; nil: nothing
	bytes int    // of the objects of events
	taken bool   // else Next must go on
	more  bool   // there is more to give
}

// deliver gives a taker that waits what the ring has for it, which is nothing before the event first.
func (w *watcher) deliver(first uint64) (g given) {
	if !w.mu.TryLock() {
		w.rouse()
		return g
	}
	defer w.mu.Unlock()
	if !w.cacher.contain(func() { w.give(first, &g) }) || !g.taken {
		w.rouse()
		g.more = false
	}
	return g
}

// give is deliver for a watcher whose mu is held. What g has when it panics is so.
func (w *watcher) give(first uint64, g *given) {
	switch missed := w.missed.Swap(false); {
	case w.waitsOn.hasFired():
		w.next = max(w.next, w.waitsOn.first)
	case !missed:
		w.next = max(w.next, first)
	}
	w.skip()
	more := w.collect(takenBatch)
	switch {
	case w.err != nil:
		return
	case w.batch == nil:
		g.taken = true
		return
	}
	for i := range *w.batch {
		g.bytes += (*w.batch)[i].Row.Value.Len()
	}
	if g.taken, g.later = w.take(*w.batch); !g.taken {
		return
	}
	w.release()
	if more {
		w.missed.Store(true)
	}
	g.more = more
}
