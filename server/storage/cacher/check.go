package cacher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// ErrInconsistent is wrapped by the error of a Check that found a difference.
var ErrInconsistent = errors.New("cache differs from its storage")

// maxDifferences bounds what the error of a Check lists.
const maxDifferences = 10

const (
	// attrsShare is in how many comparisons labels and fields of all rows are read from their bytes again, each in its
	// turn, as it takes half as long as all else.
	attrsShare = 8
	// fewRows is how many rows are so few that each comparison reads all again.
	fewRows = 1000
	// checkPages is in about how many pages the storage is read: a page is garbage a moment later, and a server that is
	// at rest would grow by it; and for each page etcd counts all rows. A page has minCheckPage rows at least.
	checkPages   = 20
	minCheckPage = 500
)

// comparison is one of the cache with its storage.
type comparison struct {
	cached tree
	attrs  storage.AttrFunc
	// began is when the storage was begun to be read, zero where it did not come to that.
	began time.Time
	// seen counts rows. Those are read again of which the number is turn, modulo of.
	seen, turn, of int
}

// Check compares the cache, which it starts, with the storage at one revision, every byte, and what selectors and
// indexes see of the rows with these bytes. It returns nil
// when they are equal, an error that wraps ErrInconsistent and names keys when they are
// not, and any other error when they could not be compared.
func (c *Cacher) Check(ctx context.Context) error {
	c.usage.hold()
	defer c.usage.release()
	return c.checked(ctx, &comparison{of: 1})
}

// checked is a counted comparison. The cache must not be stopped as idle meanwhile.
func (c *Cacher) checked(ctx context.Context, with *comparison) error {
	err := c.check(ctx, with)
	switch {
	case err == nil:
		c.metrics.checkSuccess.Inc()
	case errors.Is(err, ErrInconsistent):
		c.metrics.checkFailure.Inc()
	default:
		c.metrics.checkError.Inc()
	}
	return err
}

func (c *Cacher) check(ctx context.Context, with *comparison) error {
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	if err := c.waitCurrent(ctx, c.config.FreshTimeout, true); err != nil {
		return fmt.Errorf("cacher: check: %w", err)
	}
	with.began = c.config.Clock.Now()
	v := c.snapshot()
	with.cached, with.attrs = v.rows, c.config.GetAttrs
	if v.rows.Len() < fewRows {
		with.turn, with.of = 0, 1
	}
	opts := storage.ListOptions{
		Recursive:            true,
		ResourceVersion:      storage.FormatResourceVersion(v.rv),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate:            storage.Everything,
	}
	opts.Predicate.Limit = int64(min(max(v.rows.Len()/checkPages, minCheckPage), fillPage))
	var differences []error
	from := ""
	for {
		page, err := c.config.Storage.GetList(ctx, c.config.Prefix, opts)
		if err != nil {
			return fmt.Errorf("cacher: check: %w", err)
		}
		end := ""
		if page.Continue != "" && len(page.Rows) > 0 {
			end, _ = c.suffix(page.Rows[len(page.Rows)-1].Key, false)
		}
		differences = append(differences, with.compare(from, end, page.Rows)...)
		if page.Continue == "" || len(differences) >= maxDifferences {
			break
		}
		from = end + "\x00"
		opts.Predicate.Continue = page.Continue
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	}
	differences = append(differences, c.compareIndexes()...)
	if len(differences) == 0 {
		return nil
	}
	if len(differences) > maxDifferences {
		differences = differences[:maxDifferences]
	}
	return fmt.Errorf("cacher: %w at revision %d: %w", ErrInconsistent, v.rv, errors.Join(differences...))
}

// idleChecks is how many comparisons in a row are left out because nothing was written at all since the last
// that found no difference. Then one is made nevertheless: a row may have been written to in memory.
const idleChecks = 10

// longestCheckPause is how far comparisons are apart that take long, or are left out, but for a longer CheckInterval.
const longestCheckPause = 5 * time.Minute

// checkPause returns the time until the next comparison when the last took so long, so many have been left out since
// then, and it is so long ago. When it is overdue, because the cache was not level with its storage when it was due, it
// is tried at CheckInterval: an attempt that reads nothing costs nothing.
func (c *Cacher) checkPause(took time.Duration, left int, ago time.Duration) time.Duration {
	pause := c.config.CheckInterval
	overdue := ago >= longestCheckPause && pause < longestCheckPause
	if c.config.CheckShare > 0 && !overdue {
		wanted := max(time.Duration(float64(took)/c.config.CheckShare), pause<<min(left, idleChecks))
		pause = max(pause, min(wanted, longestCheckPause))
	}
	pause = pause/2 + rand.N(pause)
	if !overdue && c.config.CheckInterval < longestCheckPause {
		pause = min(pause, longestCheckPause-ago)
	}
	return pause
}

// checkNowAndThen compares the cache with its storage until ctx is done, and has it filled again when they differ.
func (c *Cacher) checkNowAndThen(ctx context.Context) {
	if c.config.CheckInterval <= 0 {
		return
	}
	var equalAt uint64
	var took time.Duration
	last := c.config.Clock.Now() // of what has read the storage, whatever came of it
	failed := false
	for turn, left := 0, 0; c.pause(ctx, c.checkPause(took, left, c.config.Clock.Since(last))); {
		if !c.fresh() {
			continue
		}
		rv, rvErr := c.currentRevision(ctx)
		if rvErr == nil && rv == equalAt && left < idleChecks && c.config.Clock.Since(last) < longestCheckPause {
			left++
			continue
		}
		equalAt, left = 0, 0
		with := &comparison{turn: turn % attrsShare, of: attrsShare}
		err := c.checked(ctx, with) // within a start of the cache, which a stop waits for
		if ctx.Err() != nil {
			return
		}
		if !with.began.IsZero() { // else only the cache was waited for
			last = c.config.Clock.Now()
			took = last.Sub(with.began)
		}
		if err != nil && !errors.Is(err, ErrInconsistent) {
			level := slog.LevelInfo
			if failed {
				level = slog.LevelDebug // it has been said
			}
			c.config.Logger.Log(ctx, level, "watch cache could not be compared with its storage", "resource", c.config.Resource.String(), "err", err)
			failed = true
			continue
		}
		failed = false
		turn++
		switch {
		case err != nil:
			c.distrust(err)
		case rvErr == nil:
			equalAt = rv
		}
	}
}

// distrust has the cache filled again from nothing. Watchers end with ErrCodeExpired, so that clients list again.
func (c *Cacher) distrust(why error) {
	c.config.Logger.Error("watch cache differs from its storage; it is filled again", "resource", c.config.Resource.String(), "err", why)
	c.suspect.Store(true)
	c.setReady(false)
	select {
	case c.refill <- struct{}{}:
	default:
	}
	if c.config.OnInconsistent != nil {
		c.config.OnInconsistent(why)
	}
}

// compareIndexes returns how the indexes differ from the rows.
func (c *Cacher) compareIndexes() (differences []error) {
	c.mu.Lock()
	if len(c.rows.indexes) == 0 {
		c.mu.Unlock()
		return nil
	}
	rows := c.rows.copyIndexed()
	c.mu.Unlock()
	for _, x := range rows.indexes {
		indexed := 0
		rows.Scan(func(at item) bool {
			value, ok := x.valueOf(at.el)
			if !ok {
				return true
			}
			indexed++
			if found, _ := x.rows.Get(entry{value, at.el}); found.el != at.el {
				differences = append(differences, fmt.Errorf("key %q is not in the index of %s as it is cached", at.el.row.Key, x.key.name))
			}
			return len(differences) < maxDifferences
		})
		if n := x.rows.Len(); len(differences) == 0 && n != indexed {
			differences = append(differences, fmt.Errorf("the index of %s has %d rows of %d", x.key.name, n, indexed))
		}
	}
	return differences
}

// compare returns how the cached rows from from up to end, or with "" all, differ from rows.
func (c *comparison) compare(from, end string, rows []storage.Row) (differences []error) {
	next := 0
	c.cached.ascend("", from, func(el *element) bool {
		if end != "" && el.suffix() > end {
			return false
		}
		for next < len(rows) && rows[next].Key < el.row.Key {
			differences = append(differences, fmt.Errorf("key %q is not cached", rows[next].Key))
			next++
		}
		c.seen++
		switch {
		case next == len(rows) || rows[next].Key != el.row.Key:
			differences = append(differences, fmt.Errorf("key %q is not stored", el.row.Key))
			return true
		case rows[next].ResourceVersion != el.row.ResourceVersion:
			differences = append(differences, fmt.Errorf("key %q is cached at revision %d, stored at %d", el.row.Key, el.row.ResourceVersion, rows[next].ResourceVersion))
		case !rows[next].Value.Equal(el.row.Value):
			differences = append(differences, fmt.Errorf("key %q is cached with other bytes than stored", el.row.Key))
		case c.seen%c.of == c.turn && !el.has(c.attrs(el.row.Value.Bytes())):
			differences = append(differences, fmt.Errorf("key %q is cached with other labels or fields than it has", el.row.Key))
		}
		next++
		return true
	})
	for ; next < len(rows); next++ {
		differences = append(differences, fmt.Errorf("key %q is not cached", rows[next].Key))
	}
	return differences
}
