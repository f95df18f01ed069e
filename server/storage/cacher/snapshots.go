package cacher

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxSnapshots bounds the states kept for the pages to come.
	maxSnapshots = 64
	// snapshotAge is how long a state is kept after its last use; as long as a storage
	// keeps its revisions by default.
	snapshotAge = 5 * time.Minute
	// snapshotShare is the part of Config.RingBytes that states may keep alive.
	snapshotShare = 4
	// maxRewind bounds the events that are undone to rebuild a state.
	maxRewind = 10000
	// nodeBytes is the size of a node of a tree, which the first write to it copies, and itemBytes that of a row's
	// part of it.
	nodeBytes, itemBytes = 1600, 36
)

// snapshots are states that lists have been read at and may be read at again. One of which the memory is needed is
// dropped, the one first that has not been used for the longest time: then its pages are read from the storage.
//
// # What a state costs
//
// A row that an event has replaced is kept alive by the ring, until that forgets the event, and by the states that have
// the row. So from then on the row is the cost of the latest state before the event, if it has the row, else no state
// has. For each such row it is known which is the earliest state that has it: those between have it too. A state that is
// dropped leaves the rows that it has not alone to the one before. A state that is added has none of the rows that are
// charged: these were gone before it. The nodes of its trees are estimated from the number of writes.
//
// A row that a new list has replaced is charged at once, also where the ring keeps it for a while: then it is counted
// twice until the ring forgets it.
type snapshots struct {
	// ring is charged for what states keep alive.
	ring *ring

	mu   sync.Mutex
	kept []*snapshot // the latest used last; guarded by mu
	// limit bounds bytes. closed: no states are kept any more. guarded by mu
	limit, bytes int64
	closed       bool
	// count is how many are kept, oldest when the first of them was used last, in nanoseconds, 0 where there is none. They
	// are written under mu.
	count  atomic.Int64
	oldest atomic.Int64
}

type snapshot struct {
	view
	used time.Time
	// owed are what the rows take that only this state and those before it have, rowBytes their sum, writes how many
	// there were while it was the latest, and cost what that was charged as.
	owed                   []owed
	rowBytes, writes, cost int64
}

// owed are so many bytes of rows of which the earliest state that has them is the one of revision since.
type owed struct {
	since uint64
	bytes int64
}

func (s *snapshot) owe(since uint64, bytes int64) {
	s.rowBytes += bytes
	for i := range s.owed {
		if s.owed[i].since == since {
			s.owed[i].bytes += bytes
			return
		}
	}
	s.owed = append(s.owed, owed{since, bytes})
}

// init makes states charged to a ring.
func (s *snapshots) init(r *ring, limit int64) { s.ring, s.limit = r, limit }

// keep adds a state, of which so many events were undone.
func (s *snapshots) keep(v view, now time.Time, undone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.dropLocked(now)
	defer s.noteLocked()
	if kept := s.useLocked(v.rv, now); kept != nil {
		if len(v.rows.indexes) > len(kept.rows.indexes) {
			kept.view = v
			s.chargeLocked(kept)
		}
		return
	}
	if len(s.kept) == maxSnapshots {
		s.removeLocked(0)
	}
	added := &snapshot{view: v, used: now, writes: int64(undone)}
	s.kept = append(s.kept, added)
	s.noteLocked() // from here on it is charged for what the ring forgets
	if v.rv < s.ring.floor.Load() {
		s.removeLocked(len(s.kept) - 1) // what the ring has forgotten before, nobody knows
		return
	}
	s.chargeLocked(added)
	s.shedLocked(s.limit)
}

// expire drops the states that have not been used for a while. It is called for every change, since a state
// costs memory as others go away from it.
func (s *snapshots) expire(now time.Time) {
	oldest := s.oldest.Load()
	if oldest == 0 || now.UnixNano()-oldest <= int64(snapshotAge) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(now)
	s.noteLocked()
}

func (s *snapshots) noteLocked() {
	oldest := int64(0)
	if len(s.kept) > 0 {
		oldest = s.kept[0].used.UnixNano()
	}
	s.oldest.Store(oldest)
	s.count.Store(int64(len(s.kept)))
}

// get returns the state of exactly rv.
func (s *snapshots) get(rv uint64, now time.Time) (view, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(now)
	kept := s.useLocked(rv, now)
	s.noteLocked()
	if kept == nil {
		return view{}, false
	}
	return kept.view, true
}

// useLocked makes the state of rv the latest used, and returns it; nil where there is none.
func (s *snapshots) useLocked(rv uint64, now time.Time) *snapshot {
	i := slices.IndexFunc(s.kept, func(kept *snapshot) bool { return kept.rv == rv })
	if i < 0 {
		return nil
	}
	kept := s.kept[i]
	kept.used = now
	s.kept = append(slices.Delete(s.kept, i, i+1), kept)
	return kept
}

// dropLocked drops the states that have not been used for a while.
func (s *snapshots) dropLocked(now time.Time) {
	for len(s.kept) > 0 && now.Sub(s.kept[0].used) > snapshotAge {
		s.removeLocked(0)
	}
}

// removeLocked drops a state, and leaves what it is charged for and has not alone to the one before it.
func (s *snapshots) removeLocked(i int) {
	gone := s.kept[i]
	s.kept = slices.Delete(s.kept, i, i+1)
	s.payLocked(-gone.cost)
	if after := s.fromLocked(gone.rv); after != nil {
		for _, kept := range s.kept {
			if j := slices.IndexFunc(kept.owed, func(o owed) bool { return o.since == gone.rv }); j >= 0 {
				bytes := kept.owed[j].bytes
				kept.owed = slices.Delete(kept.owed, j, j+1)
				kept.rowBytes -= bytes
				kept.owe(after.rv, bytes)
			}
		}
	}
	if before := s.beforeLocked(gone.rv); before != nil {
		for _, o := range gone.owed {
			if o.since < gone.rv {
				before.owe(o.since, o.bytes)
			}
		}
		before.writes += gone.writes
		s.chargeLocked(before)
	}
}

// beforeLocked returns the latest state before rv, nil where there is none.
func (s *snapshots) beforeLocked(rv uint64) (latest *snapshot) {
	for _, kept := range s.kept {
		if kept.rv < rv && (latest == nil || kept.rv > latest.rv) {
			latest = kept
		}
	}
	return latest
}

// fromLocked returns the earliest state from rv on, nil where there is none.
func (s *snapshots) fromLocked(rv uint64) (earliest *snapshot) {
	for _, kept := range s.kept {
		if kept.rv >= rv && (earliest == nil || kept.rv < earliest.rv) {
			earliest = kept
		}
	}
	return earliest
}

// oweLocked notes that only latest and the states before it have a row any more, and since when.
func (s *snapshots) oweLocked(latest *snapshot, el *element) {
	latest.owe(s.fromLocked(el.row.ResourceVersion).rv, el.size())
}

// chargeLocked charges for what a state keeps alive, as far as it has not been.
func (s *snapshots) chargeLocked(kept *snapshot) {
	cost := kept.rowBytes
	if kept.writes > 0 {
		// A leaf for each, the nodes above them, and no more than all.
		nodes := min((kept.writes+2)*nodeBytes, int64(kept.rows.Len())*itemBytes+nodeBytes)
		cost += int64(1+len(kept.rows.indexes)) * nodes
	}
	s.payLocked(cost - kept.cost)
	kept.cost = cost
}

func (s *snapshots) payLocked(n int64) {
	s.bytes += n
	s.ring.charge(n)
}

// shedLocked drops states until the others keep no more than limit alive.
func (s *snapshots) shedLocked(limit int64) {
	for len(s.kept) > 0 && s.bytes > limit {
		s.removeLocked(0)
	}
	s.noteLocked()
}

// shed is shedLocked. It reports whether any were dropped.
func (s *snapshots) shed(limit int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.kept)
	s.shedLocked(limit)
	return len(s.kept) < before
}

// wrote is told that rows have been written to, up to rv.
func (s *snapshots) wrote(writes int, rv uint64) {
	if writes == 0 || s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if latest := s.beforeLocked(rv); latest != nil {
		latest.writes += int64(writes)
		s.chargeLocked(latest)
		s.shedLocked(s.limit)
	}
}

// forgot is told that the ring has forgotten an event.
func (s *snapshots) forgot(e *event) {
	if s == nil || e.prev == nil || s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if latest := s.beforeLocked(e.rv); latest != nil && e.prev.row.ResourceVersion <= latest.rv {
		s.oweLocked(latest, e.prev)
		s.chargeLocked(latest)
		s.shedLocked(s.limit)
	}
}

// replaced is told that fresh, the rows of revision rv, have taken the place of old. Rows that had gone before are
// charged when the ring forgets how.
func (s *snapshots) replaced(old, fresh tree, rv uint64) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := s.beforeLocked(rv)
	if latest == nil {
		return
	}
	latest.rows.Scan(func(at item) bool {
		if fresh.get(at.key) != at.el && old.get(at.key) == at.el {
			s.oweLocked(latest, at.el)
		}
		return true
	})
	latest.writes += int64(latest.rows.Len())
	s.chargeLocked(latest)
	s.shedLocked(s.limit)
}

// dropBefore drops the states before rv.
func (s *snapshots) dropBefore(rv uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.kept) - 1; i >= 0; i-- {
		if s.kept[i].rv < rv {
			s.removeLocked(i)
		}
	}
	s.noteLocked()
}

// clear drops all states.
func (s *snapshots) clear() { s.shed(-1) }

// close drops all states, and keeps no more.
func (s *snapshots) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.clear()
}

// snapshot returns the state of now.
func (c *Cacher) snapshot() view { return c.snapshotFor(nil) }

// snapshotFor returns the state of now, with the indexes that are of use to f.
func (c *Cacher) snapshotFor(f *filter) view {
	c.mu.RLock()
	if c.frozen != nil && c.frozenForLocked(f) {
		v := view{rows: *c.frozen, rv: c.rv.Load(), next: c.ring.next}
		c.mu.RUnlock()
		return v
	}
	c.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshotLocked(f)
}

// frozenForLocked reports whether the frozen rows have the indexes that are of use to f.
func (c *Cacher) frozenForLocked(f *filter) bool {
	if f == nil {
		return true
	}
	for _, x := range c.rows.indexes {
		if _, ok := x.demanded(f); ok && c.frozen.find(x.key) == nil {
			return false
		}
	}
	return true
}

// snapshotLocked freezes the rows, and those indexes only that somebody asks for: a frozen one costs the next write a copy
// of its path.
func (c *Cacher) snapshotLocked(f *filter) view {
	if c.frozen == nil {
		frozen := c.rows.copy()
		c.frozen = &frozen
	}
	if !c.frozenForLocked(f) {
		frozen := *c.frozen
		frozen.indexes = slices.Clone(frozen.indexes)
		for _, x := range c.rows.indexes {
			if _, ok := x.demanded(f); ok && frozen.find(x.key) == nil {
				frozen.indexes = append(frozen.indexes, x.copy())
			}
		}
		c.frozen = &frozen
	}
	return view{rows: *c.frozen, rv: c.rv.Load(), next: c.ring.next}
}

// snapshotAt returns the state of exactly rv, which must not be in the future; false
// when it can be told no more. The state is kept for the pages to come.
func (c *Cacher) snapshotAt(rv uint64, f *filter) (view, bool) {
	now := c.config.Clock.Now()
	if v, ok := c.kept.get(rv, now); ok {
		return v, true
	}
	c.mu.Lock()
	if rv == c.rv.Load() {
		v := c.snapshotLocked(f)
		c.mu.Unlock()
		return v, true
	}
	if rv > c.rv.Load() || rv < c.ring.floor.Load() {
		c.mu.Unlock()
		return view{}, false
	}
	first := c.ring.after(rv)
	if c.ring.next-first > maxRewind {
		c.mu.Unlock()
		return view{}, false
	}
	undo := make([]*event, 0, c.ring.next-first)
	for seq := c.ring.next; seq > first; seq-- {
		undo = append(undo, c.ring.get(seq-1))
	}
	rows := c.rows.copyIndexed()
	c.mu.Unlock()

	for _, e := range undo {
		rows.set(e.cur.suffix(), e.prev)
	}
	v := view{rows: rows, rv: rv, next: first}
	c.kept.keep(v, now, len(undo))
	return v, true
}

// Compact forgets what came before revision rv: exact reads and pages at such a
// revision, and watches from it, are left to the storage. It need not be called when
// the storage compacts: what the cache remembers is right, and it forgets by itself in
// time. Watchers that have begun are not affected.
func (c *Cacher) Compact(rv uint64) {
	c.mu.Lock()
	c.ring.floor.Store(max(c.ring.floor.Load(), min(rv, c.rv.Load())))
	c.mu.Unlock()
	c.kept.dropBefore(rv)
}
