package cacher

import (
	"context"
	"errors"
	"strings"

	"weir.dev/weir/server/storage"
)

// Get implements storage.Interface. The most recent row costs a question for the
// storage's revision, which all who ask at the same time share; where the cache is not
// at that revision the row of an own write may be.
func (c *Cacher) Get(ctx context.Context, key string, opts storage.GetOptions) (storage.Row, error) {
	memory := storage.MemoryFrom(ctx)
	suffix, ok := c.suffix(key, false)
	if memory != nil && c.isStop.Load() {
		return storage.Row{}, c.notReady()
	}
	if !ok || c.isStop.Load() {
		return c.config.Storage.Get(ctx, key, opts)
	}
	c.usage.enter()
	defer c.usage.leave()
	if memory != nil {
		if err := c.remember(ctx, memory); err != nil {
			return storage.Row{}, err
		}
		return c.row(key, suffix, opts)
	}
	switch {
	case opts.ResourceVersion != "":
	case storage.OwnWrites(ctx):
		return c.getOwn(ctx, key, suffix, opts)
	default:
		return c.getCurrent(ctx, key, suffix, opts)
	}
	rv, err := storage.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return storage.Row{}, err
	}
	c.start()
	if !c.isReady.Load() {
		return c.config.Storage.Get(ctx, key, opts)
	}
	if rv > c.rv.Load() {
		if row, ok := c.pending.get(key); ok && row.ResourceVersion >= rv {
			return found(key, row, opts)
		}
		switch err := c.waitFor(ctx, rv, c.config.FreshTimeout, true); {
		case errors.Is(err, errStale) && !c.fresh():
			return c.config.Storage.Get(ctx, key, opts)
		case errors.Is(err, errStale):
			return storage.Row{}, c.tooLarge(rv)
		case err != nil:
			return storage.Row{}, err
		}
	}
	return c.row(key, suffix, opts)
}

// getCurrent returns the most recent row.
func (c *Cacher) getCurrent(ctx context.Context, key, suffix string, opts storage.GetOptions) (storage.Row, error) {
	if !c.fresh() {
		return c.config.Storage.Get(ctx, key, opts)
	}
	rv, err := c.currentRevision(ctx)
	if err == nil && rv > c.rv.Load() {
		// The storage's last write was this one: nothing can have changed the row since.
		if row, ok := c.pending.get(key); ok && row.ResourceVersion == rv {
			c.metrics.readFresh.Inc()
			return found(key, row, opts)
		}
		err = c.waitFor(ctx, rv, min(getWait, c.config.FreshTimeout), true)
	}
	switch {
	case ctx.Err() != nil:
		return storage.Row{}, ctx.Err()
	case err != nil:
		c.metrics.readFellBack.Inc()
		return c.config.Storage.Get(ctx, key, opts)
	}
	c.metrics.readFresh.Inc()
	return c.row(key, suffix, opts)
}

// getOwn returns a row that is as new as the last write of this cache.
func (c *Cacher) getOwn(ctx context.Context, key, suffix string, opts storage.GetOptions) (storage.Row, error) {
	c.start()
	if !c.fresh() {
		return c.config.Storage.Get(ctx, key, opts)
	}
	if newest := c.pending.newest.Load(); newest > c.rv.Load() {
		switch err := c.waitFor(ctx, newest, min(getWait, c.config.FreshTimeout), true); {
		case ctx.Err() != nil:
			return storage.Row{}, ctx.Err()
		case err != nil:
			return c.config.Storage.Get(ctx, key, opts)
		}
	}
	return c.row(key, suffix, opts)
}

// row returns the cached row.
func (c *Cacher) row(key, suffix string, opts storage.GetOptions) (storage.Row, error) {
	el := c.cached(suffix)
	if el == nil {
		return found(key, storage.Row{}, opts)
	}
	return el.row, nil
}

// found returns row, or what there is to return where it has no Value.
func found(key string, row storage.Row, opts storage.GetOptions) (storage.Row, error) {
	if !row.Value.IsZero() {
		return row, nil
	}
	if opts.IgnoreNotFound {
		return storage.Row{Key: key}, nil
	}
	return storage.Row{}, &storage.Error{Code: storage.ErrCodeKeyNotFound, Key: key, Message: "not found"}
}

// Count implements storage.Interface.
func (c *Cacher) Count(ctx context.Context, prefix string) (int64, error) {
	suffix, ok := c.suffix(prefix, true)
	c.usage.hold()
	defer c.usage.release()
	if !ok || !c.fresh() || c.waitCurrent(ctx, min(getWait, c.config.FreshTimeout), true) != nil {
		return c.config.Storage.Count(ctx, prefix)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int64(c.rows.count(suffix, "")), nil
}

// GetList implements storage.Interface.
func (c *Cacher) GetList(ctx context.Context, key string, opts storage.ListOptions) (storage.List, error) {
	memory := storage.MemoryFrom(ctx)
	start, ok := c.suffix(key, opts.Recursive)
	if memory != nil && c.isStop.Load() {
		return storage.List{}, c.notReady()
	}
	if !ok || c.isStop.Load() {
		return c.config.Storage.GetList(ctx, key, opts)
	}
	c.usage.enter()
	defer c.usage.leave()
	prefix := c.config.Prefix + start
	revision, err := storage.ResolveListRevision(prefix, opts)
	if err != nil {
		return storage.List{}, err
	}
	if memory != nil {
		if err := c.remember(ctx, memory); err != nil {
			return storage.List{}, err
		}
		f := newFilter(start, !opts.Recursive, opts.Predicate)
		return c.page(ctx, c.snapshotFor(&f), &f, strings.TrimPrefix(revision.StartKey, c.config.Prefix), opts.Predicate.Limit)
	}
	c.start()
	if !c.isReady.Load() {
		if opts.Predicate.Limit > 0 && opts.Predicate.Empty() {
			return c.config.Storage.GetList(ctx, key, opts)
		}
		switch err := c.awaitReady(ctx); {
		case storage.CodeOf(err) == storage.ErrCodeCorruptObj:
			// What is asked for may be readable; else the storage names what is not.
			return c.config.Storage.GetList(ctx, key, opts)
		case err != nil:
			return storage.List{}, err
		}
	}
	f := newFilter(start, !opts.Recursive, opts.Predicate)
	v, err := c.viewFor(ctx, revision, opts, &f)
	switch {
	case ctx.Err() != nil:
		return storage.List{}, ctx.Err()
	case errors.Is(err, errStale):
		return c.config.Storage.GetList(ctx, key, opts)
	case err != nil:
		return storage.List{}, err
	}
	limit := opts.Predicate.Limit
	if !opts.Recursive || anyAge(opts) {
		limit = 0
	}
	from := strings.TrimPrefix(revision.StartKey, c.config.Prefix)
	return c.page(ctx, v, &f, from, limit)
}

// remember readies the cache for a read that must not go to the storage. It starts one that has not.
func (c *Cacher) remember(ctx context.Context, memory *storage.Memory) error {
	c.start()
	switch {
	case c.isReady.Load():
		return nil
	case memory.Wait:
		return c.awaitReady(ctx)
	}
	if trouble := c.trouble.Load(); trouble != nil {
		return trouble
	}
	return c.notReady()
}

// looksPerTest is after how many rows a list looks whether anybody still waits for it.
const looksPerTest = 4096

// anyAge reports whether a list takes any state, for which its limit is ignored.
func anyAge(opts storage.ListOptions) bool {
	return opts.ResourceVersion == "0" && opts.Predicate.Continue == ""
}

// viewFor returns the state that a list asks for: errStale when the storage has to answer.
func (c *Cacher) viewFor(ctx context.Context, revision storage.ListRevision, opts storage.ListOptions, f *filter) (view, error) {
	if rv := max(revision.Exact, revision.AtLeast); rv > 0 {
		if err := c.waitFor(ctx, rv, c.config.FreshTimeout, true); err != nil {
			// The storage knows exact states that the cache has not come to, as one that a page from the storage goes on at.
			if errors.Is(err, errStale) && revision.Exact == 0 && c.fresh() {
				return view{}, c.tooLarge(rv)
			}
			return view{}, err
		}
		if revision.Exact == 0 {
			return c.snapshotFor(f), nil
		}
		v, ok := c.snapshotAt(rv, f)
		if !ok {
			return view{}, errStale
		}
		return v, nil
	}
	if anyAge(opts) {
		return c.snapshotFor(f), nil
	}
	if !c.fresh() {
		c.metrics.readFellBack.Inc()
		return view{}, errStale
	}
	if err := c.waitCurrent(ctx, c.config.FreshTimeout, true); err != nil {
		c.metrics.readFellBack.Inc()
		return view{}, errStale
	}
	c.metrics.readFresh.Inc()
	return c.snapshotFor(f), nil
}

// ascend calls visit with the rows of a state that f may want, those not less than from, in the order of keys. It returns the
// index that has found them, nil where there was none.
func (c *Cacher) ascend(v view, f *filter, from string, visit func(*element) bool) *index {
	if x, value := v.rows.index(f); x != nil {
		x.touch(c.config.Clock.Now())
		x.ascend(value, f.start, from, visit)
		return x
	}
	v.rows.ascend(f.start, from, visit)
	return nil
}

// page returns a page, or with limit 0 all, of the rows of a state that f wants.
func (c *Cacher) page(ctx context.Context, v view, f *filter, from string, limit int64) (storage.List, error) {
	list := storage.List{ResourceVersion: v.rv, Rows: []storage.Row{}}
	memory := storage.MemoryFrom(ctx)
	if f.exact {
		if el := v.rows.get(f.start); el != nil && f.selected(el) {
			list.Rows = append(list.Rows, el.row)
		}
		c.metrics.list.observe(nil, 1, 0, len(list.Rows))
		return list, memory.Look(1)
	}
	selects := f.selects()
	total := 0
	if !selects {
		total = v.rows.count(f.start, from)
		size := total
		if limit > 0 {
			size = min(size, int(limit))
		}
		list.Rows = make([]storage.Row, 0, size)
	}
	fetched, more := 0, false
	var stop error
	var last string
	by := c.ascend(v, f, from, func(el *element) bool {
		if limit > 0 && int64(len(list.Rows)) == limit {
			more = true
			return false
		}
		fetched++
		if fetched%looksPerTest == 0 {
			stop = ctx.Err()
		}
		if stop == nil && memory != nil {
			stop = memory.Look(fetched)
		}
		if stop != nil {
			return false
		}
		if !selects || f.selected(el) {
			list.Rows = append(list.Rows, el.row)
			last = el.suffix()
		}
		return true
	})
	evaluated := 0
	if selects {
		evaluated = fetched
	}
	if stop != nil {
		return storage.List{}, stop
	}
	c.metrics.list.observe(by, fetched, evaluated, len(list.Rows))
	if selects {
		c.wasted(f, v.rows, fetched-len(list.Rows))
	}
	if by != nil && limit > 0 && int64(len(list.Rows)) == limit {
		// Whether there is an index must not show: there is another page where there are rows, selected or not.
		v.rows.ascend(f.start, last+"\x00", func(*element) bool {
			more = true
			return false
		})
	}
	if memory != nil {
		looked := v.rows.count(f.start, from)
		if more {
			looked -= v.rows.count(f.start, last+"\x00")
		}
		if err := memory.Look(looked); err != nil {
			return storage.List{}, err
		}
	}
	if !more {
		return list, nil
	}
	token, err := storage.NextPage(c.config.Prefix+last, c.config.Prefix+f.start, v.rv)
	if err != nil {
		return storage.List{}, &storage.Error{Code: storage.ErrCodeBadContinue, Message: err.Error(), Err: err}
	}
	list.Continue = token
	if !selects {
		remaining := int64(total - len(list.Rows))
		list.RemainingItemCount = &remaining
	}
	if memory == nil { // else nobody turns the page
		c.kept.keep(v, c.config.Clock.Now(), 0)
	}
	return list, nil
}
