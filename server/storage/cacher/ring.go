package cacher

import (
	"sync/atomic"
	"time"

	"weir.dev/weir/server/storage"
)

// eventKind is what an event does to the tree.
type eventKind uint8

const (
	// put: the row was created or changed.
	put eventKind = iota
	// removal: the row was deleted.
	removal
	// cut: the events before and after do not join; who was before must list again.
	cut
)

// event is one change, shared by all watchers.
type event struct {
	// seq is its place in the ring: 1, 2, 3, …
	seq  uint64
	kind eventKind
	rv   uint64
	// cur is the row after the change; of a removal its last state with the revision of the removal.
	cur *element
	// prev is the row before the change, nil where there was none.
	prev *element
	// at is when it came, in nanoseconds.
	at int64
	// err ends those who reach a cut.
	err error
	// left caches departed.
	left atomic.Pointer[storage.Row]
}

// bury gives a removal the last state of the row, with the revision of the removal,
// where the storage has not.
func (e *event) bury() {
	row := &e.cur.row
	row.Key = e.prev.row.Key
	if row.Value != nil {
		return
	}
	row.Value = e.prev.row.Value
	if value, err := (storage.JSONCodec{}).Decode(row.Value, e.rv); err == nil {
		row.Value = value
	}
}

// departed returns the row before the change, carrying the revision of the change. It
// is made once, for all watchers whose selection the object leaves.
func (e *event) departed() storage.Row {
	if row := e.left.Load(); row != nil {
		return *row
	}
	row := storage.Row{Key: e.prev.row.Key, Value: e.prev.row.Value, ResourceVersion: e.rv}
	if value, err := (storage.JSONCodec{}).Decode(row.Value, e.rv); err == nil {
		row.Value = value
	}
	e.left.Store(&row)
	return row
}

// slots is one size of a ring.
type slots struct {
	mask uint64
	at   []atomic.Pointer[event]
}

func newSlots(capacity int) *slots {
	return &slots{mask: uint64(capacity - 1), at: make([]atomic.Pointer[event], capacity)}
}

// ring holds the latest events. Many read it without a lock while one writes.
type ring struct {
	slots atomic.Pointer[slots]
	// tail is the seq of the next event; those below are visible.
	tail atomic.Uint64
	// floor is a revision after which every event is in the ring.
	floor atomic.Uint64

	// The rest belongs to the writer. next runs ahead of tail until publish.
	head, next, lastCut uint64
	min, max            int
}

// init sets the bounds of the ring, which must be powers of two.
func (r *ring) init(min, max int) {
	r.min, r.max = min, max
	r.head, r.next = 1, 1
	r.slots.Store(newSlots(min))
	r.tail.Store(1)
}

// get returns the event of a seq below a tail that was read before; nil when it was overwritten.
func (r *ring) get(seq uint64) *event {
	s := r.slots.Load()
	if e := s.at[seq&s.mask].Load(); e != nil && e.seq == seq {
		return e
	}
	return nil
}

// append adds an event, which becomes visible with publish. It reports growth (1) and shrinkage (-1).
func (r *ring) append(e *event) (resized int) {
	s := r.slots.Load()
	capacity := uint64(len(s.at))
	if r.next-r.head == capacity {
		fresh := func(seq uint64) bool {
			return time.Duration(e.at-s.at[seq&s.mask].Load().at) < ringFreshness
		}
		switch {
		case capacity < uint64(r.max) && fresh(r.head):
			s = r.resize(capacity * 2)
			resized = 1
		case capacity > uint64(r.min) && !fresh(r.next-capacity/4):
			r.evict(r.next - capacity/2 + 1)
			s = r.resize(capacity / 2)
			resized = -1
		default:
			r.evict(r.head + 1)
		}
	}
	e.seq = r.next
	s.at[e.seq&s.mask].Store(e)
	r.next++
	if e.kind == cut {
		r.lastCut = e.seq
		r.floor.Store(e.rv)
	}
	return resized
}

// evict forgets the events below head.
func (r *ring) evict(head uint64) {
	s := r.slots.Load()
	if last := s.at[(head-1)&s.mask].Load(); last.seq > r.lastCut {
		r.floor.Store(max(r.floor.Load(), last.rv))
	}
	r.head = head
}

func (r *ring) resize(capacity uint64) *slots {
	s := newSlots(int(capacity))
	old := r.slots.Load()
	for seq := r.head; seq < r.next; seq++ {
		s.at[seq&s.mask].Store(old.at[seq&old.mask].Load())
	}
	r.slots.Store(s)
	return s
}

// publish makes what was appended visible.
func (r *ring) publish() { r.tail.Store(r.next) }

// after returns the seq of the first event with a revision above rv, which must not be below
// the floor. The writer must be held off.
func (r *ring) after(rv uint64) uint64 {
	low, high := max(r.head, r.lastCut+1), r.next
	for low < high {
		mid := low + (high-low)/2
		if r.get(mid).rv > rv {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
