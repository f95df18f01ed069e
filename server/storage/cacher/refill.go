package cacher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weir.dev/weir/server/storage"
)

// errGap ends the watchers whose events cannot be reconstructed.
var errGap = &storage.Error{
	Code:    storage.ErrCodeExpired,
	Message: "The resourceVersion for the provided watch is too old.",
}

// fill lists the resource and makes the cache reflect the list.
//
// # Why watchers lose and repeat nothing
//
// A watch that broke is resumed from c.rv, which is the revision of the last event or
// bookmark. Every event up to it is in the ring, and the storage's contract is that the
// resumed watch has every later one, once and in order. So a resumed watch is the same
// stream, and the cache's watchers do not notice. Nothing is listed.
//
// A list is needed only when the storage no longer has the events after c.rv (compacted,
// or restored from an earlier state). Let the cache be at revision A and the list be at
// B. What happened between is known only in part: the list shows each object's last
// write, but not the writes before that, not objects that were created and deleted in
// between, and not the revision of a deletion. Events made up from the difference would
// in general hide changes, or carry revisions that nothing happened at, from which a
// client could not resume with another server.
//
// The history is known completely in one case, which gap checks. Each revision of
// (A, B] is one transaction of the storage, and a transaction writes at most one object of a
// resource. The list shows for each surviving object that differs the revision of its
// last write, in (A, B]; these are distinct. If they are all revisions of (A, B], then
// every transaction of that time is accounted for, each by the one object that it wrote:
// there is no room for a hidden change. If all but one are, and exactly one object has
// disappeared, then the one left is that of its deletion. A lease that expires deletes several
// objects in one transaction: if one of these is there again, it has another uid, and the case is not this one. In this case the differences in the order of their
// revisions are the events, exactly, and they are committed as if the watch had sent
// them. An empty gap (A = B, no difference) is the smallest instance.
//
// In all other cases the ring gets a cut: whoever watches reads what came before it and
// then ends with ErrCodeExpired, and nobody can start at a revision before B.
func (c *Cacher) fill(ctx context.Context) error {
	started := c.config.Clock.Now()
	suspect := c.suspect.Swap(false)
	before := max(c.rv.Load(), c.told.highest.Load())
	fresh, rv, err := c.list(ctx, suspect)
	if err == nil && !suspect && rv < before {
		// The storage was restored: a revision that is known may have another value in its new history.
		suspect = true
		fresh, rv, err = c.list(ctx, suspect)
	}
	if err != nil {
		if suspect {
			c.suspect.Store(true)
		}
		var e *storage.Error
		if errors.As(err, &e) && (e.Code == storage.ErrCodeCorruptObj || e.Code == storage.ErrCodeUnreachable) {
			c.trouble.Store(e)
			c.advanced.fire(0) // who waits for the cache
		} else {
			c.trouble.Store(nil)
		}
		return err
	}
	c.trouble.Store(nil)
	known := c.isReady.Load() && !suspect
	var events []*event
	if known {
		events, known = c.gap(fresh, c.rv.Load(), rv)
	}
	if known {
		c.commit(events, rv)
	} else {
		if suspect || rv < c.rv.Load() {
			c.kept.clear() // they are of a history that did not happen
			c.pending.clear()
			c.told.highest.Store(rv)
		}
		fresh = c.reindexed(fresh)
		c.commitCut(errGap, rv, &fresh)
	}
	c.setReady(true)
	c.metrics.initializations.Inc()
	c.metrics.initDuration.Observe(c.config.Clock.Since(started).Seconds())
	c.config.Logger.Debug("watch cache filled", "resource", c.config.Resource.String(), "objects", fresh.Len(), "resourceVersion", rv, "gapKnown", known)
	return nil
}

// list reads all rows. Those that have not changed keep their elements, unless these are suspect.
func (c *Cacher) list(ctx context.Context, suspect bool) (tree, uint64, error) {
	fresh := newTree()
	var rv uint64
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	opts.Predicate.Limit = fillPage
	for {
		page, err := c.config.Storage.GetList(ctx, c.config.Prefix, opts)
		if err != nil {
			return tree{}, 0, fmt.Errorf("cacher: list %s: %w", c.config.Prefix, err)
		}
		if page.ResourceVersion == 0 {
			return tree{}, 0, errors.New("cacher: storage lists without a resourceVersion")
		}
		if rv == 0 {
			rv = page.ResourceVersion
		}
		for _, row := range page.Rows {
			suffix, ok := c.suffix(row.Key, false)
			if !ok || suffix == "" {
				return tree{}, 0, fmt.Errorf("cacher: foreign key %q in the list of %s", row.Key, c.config.Prefix)
			}
			el := c.cached(suffix)
			if el == nil || suspect || el.row.ResourceVersion != row.ResourceVersion {
				el = c.element(row)
			}
			fresh.Load(item{key: el.suffix(), el: el})
		}
		if page.Continue == "" {
			return fresh, rv, nil
		}
		opts.Predicate.Continue = page.Continue
	}
}

// cached returns the cached row of a key, nil when there is none.
func (c *Cacher) cached(suffix string) *element {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.rows.get(suffix)
}

// gap returns what happened after revision from up to revision to, at which the rows
// are fresh; false when that cannot be told. See fill. Only the goroutine that changes
// c.rows may call it.
func (c *Cacher) gap(fresh tree, from, to uint64) ([]*event, bool) {
	if to < from {
		return nil, false
	}
	c.mu.RLock()
	rows := c.rows // whose indexes others may replace
	c.mu.RUnlock()
	var puts []*event
	var removed []*element
	reborn := false
	fresh.Scan(func(at item) bool {
		if old := rows.get(at.key); old != at.el {
			reborn = reborn || old != nil && uidOf(old) != uidOf(at.el)
			puts = append(puts, &event{kind: put, rv: at.el.row.ResourceVersion, cur: at.el})
		}
		return uint64(len(puts)) <= to-from
	})
	rows.Scan(func(at item) bool {
		if fresh.get(at.key) == nil {
			removed = append(removed, at.el)
		}
		return len(removed) <= 1
	})
	if len(removed) > 1 || len(removed) == 1 && reborn || uint64(len(puts)+len(removed)) != to-from {
		return nil, false
	}
	slices.SortFunc(puts, func(a, b *event) int {
		switch {
		case a.rv < b.rv:
			return -1
		case a.rv > b.rv:
			return 1
		}
		return 0
	})
	events := make([]*event, 0, to-from)
	next := 0
	for rv := from + 1; rv <= to; rv++ {
		switch {
		case next < len(puts) && puts[next].rv == rv:
			events = append(events, puts[next])
			next++
		case len(removed) == 1:
			row := removed[0].row
			value, err := (storage.JSONCodec{}).Decode(row.Value.Bytes(), rv)
			if err != nil {
				return nil, false
			}
			row.Value, row.ResourceVersion = storage.NewText(value), rv
			events = append(events, &event{kind: removal, rv: rv, cur: &element{row: row, base: uint16(len(c.config.Prefix))}})
			removed = nil
		default:
			return nil, false
		}
	}
	return events, true
}

func uidOf(el *element) string { return storage.MetadataString(el.row.Value.Bytes(), "uid") }
