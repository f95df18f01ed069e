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
	// left caches departed; it is ring.gone once the ring has forgotten the event.
	left atomic.Pointer[storage.Row]
	// ring is where the event is or was.
	ring *ring
	// cost is how many bytes the ring was charged for the event. The ring's writer owns it.
	cost int64
}

// eventSize is the size of an event itself, in bytes.
const eventSize = 96

// alone returns how many bytes only the ring keeps alive for the event: the event, and the row that it replaced. The
// row after a change is the tree's, or was replaced in its turn by a later event, which the ring has as long as this
// one, and which is charged for it. The last state of a removed row is the event's own.
func (e *event) alone() int64 {
	n := int64(eventSize)
	if e.prev != nil {
		n += e.prev.size()
	}
	if e.kind == removal {
		n += e.cur.size()
	}
	return n
}

// bury gives a removal the last state of the row, with the revision of the removal,
// where the storage has not.
func (e *event) bury() {
	row := &e.cur.row
	row.Key = e.prev.row.Key
	if !row.Value.IsZero() {
		return
	}
	row.Value = e.prev.row.Value
	if value, err := (storage.JSONCodec{}).Decode(row.Value.Bytes(), e.rv); err == nil {
		row.Value = storage.NewText(value)
	}
}

// departed returns the row before the change, carrying the revision of the change. It
// is made once, for all watchers whose selection the object leaves.
func (e *event) departed() storage.Row {
	if row := e.left.Load(); row != nil && row != &e.ring.gone {
		return *row
	}
	row := storage.Row{Key: e.prev.row.Key, Value: e.prev.row.Value, ResourceVersion: e.rv}
	if value, err := (storage.JSONCodec{}).Decode(row.Value.Bytes(), e.rv); err == nil {
		row.Value = storage.NewText(value)
	}
	if e.left.CompareAndSwap(nil, &row) {
		e.ring.charge(int64(row.Value.Len()))
	}
	return row
}

// forget takes what departed has cached, and returns what the ring was charged for the event in all.
func (e *event) forget() int64 {
	n := e.cost
	if row := e.left.Swap(&e.ring.gone); row != nil {
		n += int64(row.Value.Len())
	}
	return n
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

	// bytes is what the ring alone keeps alive. budget, where there is one, counts it too.
	bytes  atomic.Int64
	budget *Budget
	// kept are told what the ring forgets; nil where there are none.
	kept *snapshots
	// gone marks that an event has been forgotten. It is not written to.
	gone storage.Row

	// The rest belongs to the writer. next runs ahead of tail until publish.
	head, next, lastCut uint64
	min, max            int
	// maxBytes bounds bytes, down to minEvents events.
	maxBytes int64
}

// minEvents is how many events a ring remembers whatever their size, if it may have as many; upstream's lower bound
// of its capacity.
const minEvents = 100

// init makes a ring without events. Its bounds min and max must be powers of two.
func (r *ring) init(min, max int, maxBytes int64) {
	r.min, r.max, r.maxBytes = min, max, maxBytes
	r.head, r.next, r.lastCut = 1, 1, 0
	r.floor.Store(0)
	r.slots.Store(newSlots(min))
	r.tail.Store(1)
	r.charge(-r.bytes.Load())
}

// charge adds to what the ring keeps alive.
func (r *ring) charge(n int64) {
	r.bytes.Add(n)
	if r.budget != nil {
		r.budget.held.Add(n)
	}
}

// get returns the event of a seq below a tail that was read before; nil when it was overwritten.
func (r *ring) get(seq uint64) *event {
	s := r.slots.Load()
	if e := s.at[seq&s.mask].Load(); e != nil && e.seq == seq {
		return e
	}
	return nil
}

// append adds an event, which becomes visible with publish. It reports by how many
// steps, each a factor of two, the capacity grew, below zero by how many it shrank.
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
	e.ring = r
	e.cost = e.alone()
	r.charge(e.cost)
	s.at[e.seq&s.mask].Store(e)
	r.next++
	if e.kind == cut {
		r.lastCut = e.seq
		r.floor.Store(e.rv)
	}
	if r.bytes.Load() > r.maxBytes {
		resized += r.trim(r.maxBytes)
	}
	return resized
}

// evict forgets the events below head.
func (r *ring) evict(head uint64) {
	s := r.slots.Load()
	if last := s.at[(head-1)&s.mask].Load(); last.seq > r.lastCut {
		r.floor.Store(max(r.floor.Load(), last.rv))
	}
	var freed int64
	for ; r.head < head; r.head++ {
		e := s.at[r.head&s.mask].Swap(nil)
		freed += e.forget()
		r.kept.forgot(e)
	}
	r.charge(-freed)
}

// release takes back what the ring was charged for its events, which stay readable.
func (r *ring) release() {
	var freed int64
	for seq := r.head; seq < r.next; seq++ {
		freed += r.get(seq).forget()
	}
	r.charge(-freed)
}

// trim forgets the oldest events until the rest keeps no more than limit bytes alive, or is minEvents. It returns how
// often the ring's capacity was halved, below zero.
func (r *ring) trim(limit int64) (resized int) {
	before := r.head
	for r.next-r.head > minEvents && r.bytes.Load() > limit {
		r.evict(r.head + 1)
	}
	if r.head == before {
		return 0
	}
	for capacity := len(r.slots.Load().at); capacity > r.min && r.next-r.head <= uint64(capacity/4); resized-- {
		capacity /= 2
		r.resize(uint64(capacity))
	}
	return resized
}

// replaced charges for the rows after a change that fresh does not have, where old has them, which are the ring's
// alone once fresh takes the place of old.
func (r *ring) replaced(old, fresh tree) {
	for seq := r.head; seq < r.next; seq++ {
		e := r.get(seq)
		if e.kind != put {
			continue
		}
		if key := e.cur.suffix(); old.get(key) == e.cur && fresh.get(key) != e.cur {
			n := e.cur.size()
			e.cost += n
			r.charge(n)
		}
	}
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
