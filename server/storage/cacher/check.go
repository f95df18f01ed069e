package cacher

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// ErrInconsistent is wrapped by the error of a Check that found a difference.
var ErrInconsistent = errors.New("cache differs from its storage")

// maxDifferences bounds what the error of a Check lists.
const maxDifferences = 10

// Check compares the cache with the storage at one revision, every byte. It returns nil
// when they are equal, an error that wraps ErrInconsistent and names keys when they are
// not, and any other error when they could not be compared.
func (c *Cacher) Check(ctx context.Context) error {
	err := c.check(ctx)
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

func (c *Cacher) check(ctx context.Context) error {
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	if err := c.waitCurrent(ctx, c.config.FreshTimeout, false); err != nil {
		return fmt.Errorf("cacher: check: %w", err)
	}
	v := c.snapshot()
	opts := storage.ListOptions{
		Recursive:            true,
		ResourceVersion:      storage.FormatResourceVersion(v.rv),
		ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		Predicate:            storage.Everything,
	}
	opts.Predicate.Limit = fillPage
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
		differences = append(differences, c.compare(v.rows, from, end, page.Rows)...)
		if page.Continue == "" || len(differences) >= maxDifferences {
			break
		}
		from = end + "\x00"
		opts.Predicate.Continue = page.Continue
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	}
	if len(differences) == 0 {
		return nil
	}
	if len(differences) > maxDifferences {
		differences = differences[:maxDifferences]
	}
	return fmt.Errorf("cacher: %w at revision %d: %w", ErrInconsistent, v.rv, errors.Join(differences...))
}

// compare returns how the cached rows from from up to end, or with "" all, differ from rows.
func (c *Cacher) compare(cached tree, from, end string, rows []storage.Row) (differences []error) {
	next := 0
	cached.ascend("", from, func(el *element) bool {
		if end != "" && el.suffix() > end {
			return false
		}
		for next < len(rows) && rows[next].Key < el.row.Key {
			differences = append(differences, fmt.Errorf("key %q is not cached", rows[next].Key))
			next++
		}
		switch {
		case next == len(rows) || rows[next].Key != el.row.Key:
			differences = append(differences, fmt.Errorf("key %q is not stored", el.row.Key))
			return true
		case rows[next].ResourceVersion != el.row.ResourceVersion:
			differences = append(differences, fmt.Errorf("key %q is cached at revision %d, stored at %d", el.row.Key, el.row.ResourceVersion, rows[next].ResourceVersion))
		case !bytes.Equal(rows[next].Value, el.row.Value):
			differences = append(differences, fmt.Errorf("key %q is cached with other bytes than stored", el.row.Key))
		}
		next++
		return true
	})
	for ; next < len(rows); next++ {
		differences = append(differences, fmt.Errorf("key %q is not cached", rows[next].Key))
	}
	return differences
}
