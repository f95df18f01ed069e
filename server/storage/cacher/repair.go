package cacher

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"weir.dev/weir/server/storage"
)

// A cache that cannot be filled because of objects that cannot be read is filled again after a pause that
// doubles from the first to the longest, and at once when those objects have gone or become readable. To see
// that, one of them is read every so often.
const (
	firstRepairPause   = 2 * time.Second
	longestRepairPause = time.Minute
	repairLook         = time.Second
)

// awaitRepair waits for what err says cannot be read to be repaired, and for a pause at most.
func (c *Cacher) awaitRepair(ctx context.Context, err error, failures int) {
	longest := longestRepairPause
	if failures < 5 {
		longest = min(firstRepairPause<<failures, longestRepairPause)
	}
	longest = longest/2 + rand.N(longest/2)
	keys := unreadableKeys(err)
	for started := c.config.Clock.Now(); ; {
		for len(keys) > 0 && c.readable(ctx, keys[0]) {
			if keys = keys[1:]; len(keys) == 0 {
				return
			}
		}
		left := longest - c.config.Clock.Since(started)
		if left <= 0 || ctx.Err() != nil {
			return
		}
		timer := c.config.Clock.NewTimer(min(left, repairLook))
		select {
		case <-timer.C():
		case <-c.repair:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// unreadableKeys returns the keys that err names.
func unreadableKeys(err error) []string {
	var e *storage.Error
	switch {
	case !errors.As(err, &e):
		return nil
	case len(e.Corrupt) > 0:
		keys := make([]string, len(e.Corrupt))
		for i, row := range e.Corrupt {
			keys[i] = row.Key
		}
		return keys
	case e.Key != "":
		return []string{e.Key}
	}
	return nil
}

// concerning returns err, which is about objects that cannot be read, with those only that f may want, nil where there
// are none: who may see only some keys is not told of others.
func (c *Cacher) concerning(f *filter, err error) error {
	var e *storage.Error
	if !errors.As(err, &e) {
		return err
	}
	if len(e.Corrupt) == 0 {
		if suffix, ok := strings.CutPrefix(e.Key, c.config.Prefix); ok && !f.inScope(suffix) {
			return nil
		}
		return err
	}
	var mine []*storage.Error
	for _, row := range e.Corrupt {
		if suffix, ok := strings.CutPrefix(row.Key, c.config.Prefix); !ok || f.inScope(suffix) {
			mine = append(mine, row)
		}
	}
	switch len(mine) {
	case 0:
		return nil
	case len(e.Corrupt):
		return err
	}
	return storage.CorruptList(mine, nil)
}

// direct is a watch of the storage in place of one of the cache.
type direct struct {
	storage.Watcher
	leave func()
}

// Stop implements storage.Watcher.
func (w *direct) Stop() {
	w.Watcher.Stop()
	w.leave()
}

// watchStorage is Watch while the cache cannot be filled.
func (c *Cacher) watchStorage(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	leave := sync.OnceFunc(func() { c.direct.Add(-1) })
	if c.direct.Add(1) > maxPast {
		leave()
		return nil, c.notReady()
	}
	w, err := c.config.Storage.Watch(ctx, key, opts)
	if err != nil {
		leave()
		return nil, err
	}
	return &direct{w, leave}, nil
}

// readable reports that the object of key can be read now, or is gone.
func (c *Cacher) readable(ctx context.Context, key string) bool {
	_, err := c.config.Storage.Get(ctx, key, storage.GetOptions{IgnoreNotFound: true})
	return err == nil
}

// repaired is called when an object that could not be read has been deleted through this cache: a list that comes now
// waits for the cache instead of being told what was wrong with it.
func (c *Cacher) repaired() {
	c.trouble.Store(nil)
	select {
	case c.repair <- struct{}{}:
	default:
	}
}
