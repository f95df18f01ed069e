package cacher

import (
	"container/heap"
	"sync"
	"sync/atomic"
)

// views are the states that watchers are sending as their initial events. What goes away from one is the ring's, so that
// it costs little as long as the ring has what follows it. A watcher whose client is so slow that the ring has
// forgotten that could not go on, so its state is taken away from it.
type views struct {
	mu sync.Mutex
	// held are those that watchers have, the one that the ring forgets next first. guarded by mu
	held heldViews
	// oldest is the next of the first, 0 where there is none. It is written under mu.
	oldest atomic.Uint64
}

// heldView is the state that one watcher is sending.
type heldView struct {
	// view is nil once it is taken away.
	view  atomic.Pointer[view]
	topic *topic
	// next is the seq of the event that the watcher goes on with. guarded by mu of the views
	next uint64
	// at is where it is among the held, below zero where it is not. guarded by mu of the views
	at int
}

// hold keeps a state for a watcher of a topic; drop must follow.
func (v *views) hold(state view, of *topic) *heldView {
	h := &heldView{topic: of, next: state.next}
	h.view.Store(&state)
	v.mu.Lock()
	defer v.mu.Unlock()
	heap.Push(&v.held, h)
	v.noteLocked()
	return h
}

// drop gives a state back, and returns the seq of the event that its watcher goes on with. It may be called again.
func (v *views) drop(h *heldView) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.view.Store(nil)
	if h.at >= 0 {
		heap.Remove(&v.held, h.at)
		v.noteLocked()
	}
	return h.next
}

// revoke takes states away of which the ring, which begins at head, has forgotten what follows. announced is that of the hub.
func (v *views) revoke(head, announced uint64) {
	if oldest := v.oldest.Load(); oldest == 0 || oldest >= head {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.held) > 0 && v.held[0].next < head {
		h := v.held[0]
		// What was not the watcher's topic's need not be there any more.
		if h.next = h.topic.skip(h.next, announced); h.next >= head {
			heap.Fix(&v.held, 0)
			continue
		}
		heap.Pop(&v.held)
		h.view.Store(nil)
	}
	v.noteLocked()
}

func (v *views) noteLocked() {
	oldest := uint64(0)
	if len(v.held) > 0 {
		oldest = v.held[0].next
	}
	v.oldest.Store(oldest)
}

// revokeViews takes the states away from watchers that could not go on after them.
func (c *Cacher) revokeViews(head uint64) { c.views.revoke(head, c.hub.announced.Load()) }

// heldViews implements heap.Interface.
type heldViews []*heldView

func (h heldViews) Len() int           { return len(h) }
func (h heldViews) Less(i, j int) bool { return h[i].next < h[j].next }

func (h heldViews) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *heldViews) Push(x any) {
	added := x.(*heldView)
	added.at = len(*h)
	*h = append(*h, added)
}

// Pop implements heap.Interface.
func (h *heldViews) Pop() any {
	last := len(*h) - 1
	popped := (*h)[last]
	popped.at = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return popped
}
