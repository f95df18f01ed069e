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
	// maxRewind bounds the events that are undone to rebuild a state.
	maxRewind = 10000
)

// snapshots are states that lists have been read at and may be read at again.
type snapshots struct {
	mu   sync.Mutex
	kept []snapshot // the latest used last; guarded by mu
	// oldest is when the first of kept was used last, in nanoseconds, 0 where there is none. It is written under mu.
	oldest atomic.Int64
}

type snapshot struct {
	view
	used time.Time
}

// keep adds a state.
func (s *snapshots) keep(v view, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeLocked(v.rv)
	s.dropLocked(now)
	if len(s.kept) == maxSnapshots {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, snapshot{view: v, used: now})
	s.noteLocked()
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
}

// get returns the state of exactly rv.
func (s *snapshots) get(rv uint64, now time.Time) (view, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(now)
	v, ok := s.takeLocked(rv)
	if ok {
		s.kept = append(s.kept, snapshot{view: v, used: now})
	}
	s.noteLocked()
	return v, ok
}

func (s *snapshots) takeLocked(rv uint64) (view, bool) {
	for i := range s.kept {
		if s.kept[i].rv == rv {
			v := s.kept[i].view
			s.kept = slices.Delete(s.kept, i, i+1)
			return v, true
		}
	}
	return view{}, false
}

// dropLocked drops the states that have not been used for a while.
func (s *snapshots) dropLocked(now time.Time) {
	n := 0
	for n < len(s.kept) && now.Sub(s.kept[n].used) > snapshotAge {
		n++
	}
	s.kept = slices.Delete(s.kept, 0, n)
}

// dropBefore drops the states before rv.
func (s *snapshots) dropBefore(rv uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = slices.DeleteFunc(s.kept, func(kept snapshot) bool { return kept.rv < rv })
	s.noteLocked()
}

// clear drops all states.
func (s *snapshots) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = nil
	s.noteLocked()
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
	c.kept.keep(v, now)
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
