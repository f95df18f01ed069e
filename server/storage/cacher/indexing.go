package cacher

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxIndexes bounds the indexes of a cache: each costs some 52 bytes a row, and half a microsecond of a write.
	maxIndexes = 8
	// indexAge is how long an index is kept after its last use.
	indexAge = 10 * time.Minute
	// minWaste is the least number of rows that a list has looked at for nothing for this to count.
	minWaste = 512
	// indexCost is what building an index costs, in looks at each row.
	indexCost = 3
	// maxWanted bounds the names that waste is counted for.
	maxWanted = 64
)

// indexing decides which indexes are worth their cost. An index is built as soon as lists that it would have
// served have looked at as many rows for nothing as building it looks at. So selecting costs at
// most twice what it would if it were known from the start which indexes pay, and a selector that
// nobody repeats costs no memory.
type indexing struct {
	mu     sync.Mutex
	wanted map[indexKey]wanted // guarded by mu
	// building is held by who builds an index.
	building sync.Mutex
}

// wanted is what the lack of an index has cost.
type wanted struct {
	rows int
	last time.Time
}

// due counts rows that were looked at for nothing, and reports whether the index is worth building.
func (i *indexing) due(key indexKey, rows, cost int, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	w, known := i.wanted[key]
	if !known && len(i.wanted) >= maxWanted {
		clear(i.wanted)
	}
	if now.Sub(w.last) > indexAge {
		w.rows = 0
	}
	w.rows += rows
	w.last = now
	if w.rows >= cost {
		delete(i.wanted, key)
		return true
	}
	if i.wanted == nil {
		i.wanted = map[indexKey]wanted{}
	}
	i.wanted[key] = w
	return false
}

// clear forgets all waste.
func (i *indexing) clear() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = nil
}

// wasted is told that a list looked at rows of a state for nothing.
func (c *Cacher) wasted(f *filter, rows tree, looked int) {
	if looked < minWaste {
		return
	}
	key, ok := f.indexable(rows.indexes)
	if !ok || c.indexed(key) || !c.indexing.due(key, looked, indexCost*rows.Len(), c.config.Clock.Now()) {
		return
	}
	// Whoever comes while it is built looks at the rows one by one.
	if c.indexing.building.TryLock() {
		defer c.indexing.building.Unlock()
		c.addIndex(key)
	}
}

// indexed reports whether there is an index, which a state of the past may be without.
func (c *Cacher) indexed(key indexKey) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.rows.find(key) != nil
}

func (c *Cacher) newIndex(key indexKey, rows tree) *index {
	x := newIndex(key, rows)
	x.lists, x.read = c.metrics.list.indexed(x.label)
	return x
}

// addIndex builds an index, without holding up those who read or write. The cache must not be stopped as idle meanwhile.
func (c *Cacher) addIndex(key indexKey) {
	v := c.snapshot()
	x := c.newIndex(key, v.rows)
	now := c.config.Clock.Now()
	x.touch(now)

	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.rows.indexes
	if c.rows.find(key) != nil {
		return
	}
	if kept = used(kept, now); len(kept) >= maxIndexes {
		return
	}
	// What has happened since.
	for seq := v.next; seq < c.ring.next; seq++ {
		e := c.ring.get(seq)
		switch {
		case e == nil || e.kind == cut:
			return
		case e.kind == removal:
			x.replace(e.prev, nil)
		default:
			x.replace(e.prev, e.cur)
		}
	}
	c.rows.indexes = append(slices.Clone(kept), x)
	c.metrics.indexes.Set(float64(len(c.rows.indexes)))
	c.config.Logger.Debug("watch cache indexed", "resource", c.config.Resource.String(), "index", key.name, "label", key.label, "rows", x.rows.Len())
}

// dropIndexesLocked drops the indexes that nobody uses any more, so that writes do not pay for them.
func (c *Cacher) dropIndexesLocked(now time.Time) {
	if len(c.rows.indexes) == 0 {
		return
	}
	if kept := used(c.rows.indexes, now); len(kept) != len(c.rows.indexes) {
		c.rows.indexes = kept
		c.metrics.indexes.Set(float64(len(kept)))
	}
}

// used returns those of all that are in use: all itself if they all are.
func used(all []*index, now time.Time) []*index {
	idle := func(x *index) bool { return now.UnixNano()-x.used.Load() > int64(indexAge) }
	if !slices.ContainsFunc(all, idle) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), idle)
}

// reindexed gives rows that are to take the place of the cache's the same indexes.
func (c *Cacher) reindexed(rows tree) tree {
	c.mu.RLock()
	old := used(c.rows.indexes, c.config.Clock.Now())
	c.mu.RUnlock()
	rows.indexes = nil
	for _, x := range old {
		fresh := c.newIndex(x.key, rows)
		fresh.used = x.used
		rows.indexes = append(rows.indexes, fresh)
	}
	return rows
}
