package cacher

import (
	"context"
	"runtime"
	"sync"

	"weir.dev/weir/server/storage"
)

const (
	// manyTakers is from how many watchers of a topic on that take events are given to them by one goroutine. Fewer
	// are woken: they are on other processors at once, and it costs little.
	manyTakers = 8
	// maxTakes is how many batches a watcher is given at a time. One that has more waiting takes the rest itself.
	maxTakes = 4
	// laterShare is how much of what is left to do is worth a goroutine.
	laterShare = 8
)

// delivery gives events to watchers that take them, see storage.Offerer, so that an event wakes one goroutine and not
// one for each watcher.
//
// # Why no event is missed
//
// A watcher holds its mu but while it waits. Before it lets go, it has looked at all that the ring shows. An event that
// the ring shows later makes its topic due, and each time that a topic is due all its takers are visited: one that waits
// is given what the ring has; one that does not is roused, and looks at the ring before it waits again.
//
// A visit may begin at the event that made the topic due, see generation.first, as long as the watcher has been given
// all that made it due before: not after a visit that left it something, or found it at work, nor when what it waits on
// has been fired and it has not yet run.
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
		return // from an earlier event on
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
	for {
		select {
		case <-c.hub.delivery.wake:
		case <-ctx.Done():
			return
		}
		visits = c.hub.delivery.take(visits[:0])
		for _, v := range visits {
			takers = c.hub.takers(v.topic, takers[:0])
			for _, w := range takers {
				later = w.deliver(v.first, later)
			}
			clear(takers)
		}
		clear(visits)
		doAll(later)
		clear(later)
		later = later[:0]
	}
}

// doAll does what is left, on as many processors as it is worth, and waits for it.
func doAll(later []func()) {
	shares := min(runtime.GOMAXPROCS(0), len(later)/laterShare)
	if shares <= 1 {
		doEach(later)
		return
	}
	var others sync.WaitGroup
	size := (len(later) + shares - 1) / shares
	for begin := size; begin < len(later); begin += size {
		others.Go(func() { doEach(later[begin:min(begin+size, len(later))]) })
	}
	doEach(later[:size])
	others.Wait()
}

func doEach(later []func()) {
	for _, do := range later {
		do()
	}
}

// Offer implements storage.Offerer.
func (w *watcher) Offer(take storage.Take) {
	w.mu.Lock() // until it waits
	w.take = take
	w.roused = make(chan struct{}, 1)
	w.cacher.hub.offer(w)
}

// rouse makes a taker look at the ring itself: not all that was there for it has been given to it.
func (w *watcher) rouse() {
	w.missed.Store(true)
	select {
	case w.roused <- struct{}{}:
	default:
	}
}

// deliver gives a taker that waits what the ring has for it, which is nothing before the event first. It appends what
// is left to do.
func (w *watcher) deliver(first uint64, later []func()) []func() {
	if !w.mu.TryLock() {
		w.rouse()
		return later
	}
	defer w.mu.Unlock()
	if missed := w.missed.Swap(false); !missed && !w.waitsOn.hasFired() {
		w.next = max(w.next, first)
	}
	for range maxTakes {
		w.collect()
		if w.batch != nil {
			taken, more := w.offered()
			if !taken {
				break
			}
			w.release()
			if more != nil {
				later = append(later, more)
			}
		} else if w.err == nil {
			return later
		}
		if w.err != nil {
			break
		}
	}
	w.rouse()
	return later
}

// offered gives the batch to the taker. One that panics takes nothing, and panics again where Next's caller sees it.
func (w *watcher) offered() (taken bool, later func()) {
	defer func() {
		if v := recover(); v != nil {
			w.cacher.config.Logger.Error("a watch could not take events", "resource", w.cacher.config.Resource.String(), "panic", v)
			taken, later = false, nil
		}
	}()
	return w.take(*w.batch)
}
