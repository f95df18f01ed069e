package cacher

import (
	"context"

	"weir.dev/weir/server/storage"
)

// Create implements storage.Interface.
func (c *Cacher) Create(ctx context.Context, key string, value []byte, ttl uint64) (storage.Row, error) {
	row, err := c.config.Storage.Create(ctx, key, value, ttl)
	if err == nil {
		c.wrote(row)
	}
	return row, err
}

// GuaranteedUpdate implements storage.Interface. The cached row is the first guess at
// the current one.
func (c *Cacher) GuaranteedUpdate(ctx context.Context, key string, opts storage.UpdateOptions, update storage.UpdateFunc) (storage.Row, error) {
	if opts.Cached.Value.IsZero() {
		c.usage.touch()
		opts.Cached = c.guess(key)
	}
	row, err := c.config.Storage.GuaranteedUpdate(ctx, key, opts, update)
	if err == nil {
		c.wrote(row)
	}
	return row, err
}

// Delete implements storage.Interface. The cached row is the first guess at the current one.
func (c *Cacher) Delete(ctx context.Context, key string, opts storage.DeleteOptions) (storage.Row, error) {
	if opts.Cached.Value.IsZero() && !opts.Unreadable {
		c.usage.touch()
		opts.Cached = c.guess(key)
	}
	row, err := c.config.Storage.Delete(ctx, key, opts)
	if err == nil {
		c.wrote(storage.Row{Key: row.Key, ResourceVersion: row.ResourceVersion})
		if opts.Unreadable {
			c.repaired()
		}
	}
	return row, err
}

// guess returns the latest known row of a key, one without Value when none is known.
func (c *Cacher) guess(key string) storage.Row {
	suffix, ok := c.suffix(key, false)
	if !ok || !c.isReady.Load() {
		return storage.Row{}
	}
	own, _ := c.pending.get(key)
	if el := c.cached(suffix); el != nil && el.row.ResourceVersion > own.ResourceVersion {
		return el.row
	}
	return own
}

// wrote remembers a row until its event comes.
func (c *Cacher) wrote(row storage.Row) {
	c.pending.note(row.ResourceVersion)
	c.told.hear(row.ResourceVersion)
	if c.fresh() && row.ResourceVersion > c.rv.Load() {
		c.pending.add(row)
	}
}
