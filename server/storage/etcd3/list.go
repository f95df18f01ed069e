package etcd3

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
)

const (
	// maxPage is up to where a page is doubled when selectors leave little of it, and
	// how many rows the initial events of a watch are read at a time.
	maxPage = 10000
	// maxCorrupt is how many unreadable rows an error names.
	maxCorrupt = 100
)

// GetList implements storage.Interface. Rows are read in one go where there is no
// limit; with a limit and selectors, pages of twice the size follow until enough rows
// are selected.
func (s *Store) GetList(ctx context.Context, key string, opts storage.ListOptions) (storage.List, error) {
	if err := s.checkKey(key, opts.Recursive); err != nil {
		return storage.List{}, err
	}
	at, err := storage.ResolveListRevision(key, opts)
	if err != nil {
		return storage.List{}, err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	started, fetched := time.Now(), 0
	if !opts.Recursive {
		return s.listOne(ctx, key, at, opts)
	}
	var (
		list    storage.List
		corrupt corruptRows
		paged   = opts.Predicate.Limit > 0
		all     = opts.Predicate.Empty()
		rest    = rows{prefix: key, next: key, rev: int64(at.Exact), limit: opts.Predicate.Limit}
		last    string
		more    bool
	)
	if at.StartKey != "" {
		rest.next = at.StartKey
	}
	begin, token := rest, ""
	if opts.Predicate.Continue != "" {
		token = begin.next
	}
	for {
		page, err := s.page(ctx, &rest, token)
		if err != nil && last != "" && storage.CodeOf(err) == storage.ErrCodeExpired {
			// Compacted between two reads. The rows found so far are a page, if a short one: an error, whose token
			// goes on behind them, would lose them. Where there are none, a list that asked for no revision
			// begins again at another.
			if len(list.Rows) > 0 {
				more = true
				break
			}
			if at.Exact == 0 {
				rest, last, corrupt = begin, "", corruptRows{}
				continue
			}
		}
		if err != nil {
			return storage.List{}, err
		}
		if uint64(page.rev) < at.AtLeast {
			return storage.List{}, tooLargeRevision(at.AtLeast, uint64(page.rev))
		}
		list.ResourceVersion = uint64(page.rev)
		more = page.more
		fetched += len(page.kvs)
		if err := storage.MemoryFrom(ctx).Look(fetched); err != nil {
			return storage.List{}, err
		}
		if all && list.Rows == nil {
			list.Rows = make([]storage.Row, 0, len(page.kvs))
		}
		for i, kv := range page.kvs {
			if paged && int64(len(list.Rows)) >= opts.Predicate.Limit {
				more = true
				break
			}
			page.kvs[i] = nil // read once, so that it can be freed while the rest is decoded
			last = string(kv.Key)
			if !s.isRow(last) {
				continue
			}
			row, selected, err := s.listRow(ctx, last, kv, opts.Predicate)
			if err != nil {
				if ctx.Err() != nil {
					return storage.List{}, s.fail(ctx, key, ctx.Err())
				}
				if corrupt.add(err) {
					return storage.List{Rows: list.Rows}, corrupt.err()
				}
				continue
			}
			if selected {
				list.Rows = append(list.Rows, row)
			}
		}
		if paged && more && all {
			remaining := page.count - opts.Predicate.Limit
			list.RemainingItemCount = &remaining
		}
		if !page.more || (paged && int64(len(list.Rows)) >= opts.Predicate.Limit) {
			break
		}
		rest.limit = max(rest.limit, min(2*rest.limit, maxPage))
	}
	if err := corrupt.err(); err != nil {
		if more || token != "" {
			list.ResourceVersion = 0 // they are a page
		}
		return storage.List{Rows: list.Rows, ResourceVersion: list.ResourceVersion}, err
	}
	evaluated := fetched
	if all {
		evaluated = 0
	}
	s.ops.listed(started, fetched, evaluated, len(list.Rows))
	if more {
		// Behind the last row that is returned, not the last that was read: when the revision is gone, what was
		// not selected at it may be selected.
		if n := len(list.Rows); n > 0 {
			last = list.Rows[n-1].Key
		}
		if list.Continue, err = storage.NextPage(last, key, list.ResourceVersion); err != nil {
			return storage.List{}, err
		}
	}
	return list, nil
}

// listOne lists the one object of a key.
func (s *Store) listOne(ctx context.Context, key string, at storage.ListRevision, opts storage.ListOptions) (storage.List, error) {
	started := time.Now()
	resp, err := s.client.KV.Get(ctx, key, clientv3.WithRev(int64(at.Exact)))
	s.ops.get.observe(started, err)
	if err != nil {
		return storage.List{}, s.failList(ctx, err, int64(at.Exact), key, "")
	}
	list := storage.List{ResourceVersion: uint64(resp.Header.Revision)}
	if at.Exact > 0 {
		list.ResourceVersion = at.Exact
	}
	if list.ResourceVersion < at.AtLeast {
		return storage.List{}, tooLargeRevision(at.AtLeast, list.ResourceVersion)
	}
	if kv := first(resp.Kvs); kv != nil {
		row, selected, err := s.listRow(ctx, key, kv, opts.Predicate)
		if err != nil {
			var corrupt corruptRows
			corrupt.add(err)
			return storage.List{}, corrupt.err()
		}
		if selected {
			list.Rows = []storage.Row{row}
		}
	}
	return list, nil
}

// listRow reads one row, and whether it is selected.
func (s *Store) listRow(ctx context.Context, key string, kv *mvccpb.KeyValue, p storage.SelectionPredicate) (storage.Row, bool, error) {
	st, err := s.state(ctx, key, kv, false)
	if err != nil {
		return storage.Row{}, false, err
	}
	selected, err := p.Matches(st.row.Value.Bytes())
	if err != nil {
		return storage.Row{}, false, corrupt(key, err)
	}
	return st.row, selected, nil
}

// rows says which rows of a prefix are still to be read.
type rows struct {
	prefix string
	// next is the key at or after which they begin.
	next string
	// rev is the revision to read at; 0 means the current one, which the first page fixes.
	rev int64
	// limit is how many to read at once; 0 means all.
	limit int64
}

// page is an answer of etcd.
type page struct {
	kvs []*mvccpb.KeyValue
	rev int64
	// count is how many rows there are from the first of the page on.
	count int64
	more  bool
}

// page reads the next rows and advances r. token, where not "", is where the continue token begins with which the
// reader came: it can be exchanged for one that begins there when the revision is gone. What was read behind it and not
// selected may be selected now.
func (s *Store) page(ctx context.Context, r *rows, token string) (page, error) {
	started := time.Now()
	resp, err := s.client.KV.Get(ctx, r.next,
		clientv3.WithRange(clientv3.GetPrefixRangeEnd(r.prefix)),
		clientv3.WithRev(r.rev),
		clientv3.WithLimit(r.limit))
	s.ops.list.observe(started, err)
	if err != nil {
		return page{}, s.failList(ctx, err, r.rev, r.prefix, token)
	}
	if r.rev == 0 {
		r.rev = resp.Header.Revision
	}
	if n := len(resp.Kvs); n > 0 {
		r.next = string(resp.Kvs[n-1].Key) + "\x00"
	} else if resp.More {
		return page{}, fmt.Errorf("key %q: etcd returned no rows although there are more", r.prefix)
	}
	return page{kvs: resp.Kvs, rev: r.rev, count: resp.Count, more: resp.More}, nil
}

// failList returns the error of a list at rev. startKey, where not "", is where it
// would go on inconsistently.
func (s *Store) failList(ctx context.Context, err error, rev int64, prefix, startKey string) error {
	switch {
	case errors.Is(err, rpctypes.ErrFutureRev):
		current, failed := s.GetCurrentResourceVersion(ctx)
		if failed != nil {
			current = 0
		}
		return tooLargeRevision(uint64(rev), current)
	case errors.Is(err, rpctypes.ErrCompacted):
		if startKey != "" {
			if token, failed := storage.EncodeContinue(startKey, prefix, storage.InconsistentContinue); failed == nil {
				return &storage.Error{Code: storage.ErrCodeExpired, Message: expiredContinue, Continue: token, Err: err}
			}
		}
		return &storage.Error{Code: storage.ErrCodeExpired, Message: expiredList, Err: err}
	}
	return s.fail(ctx, prefix, err)
}

// corruptRows collects the rows of a list that cannot be read.
type corruptRows struct {
	rows    []*storage.Error
	aborted error
}

// add reports whether the list is to be aborted.
func (c *corruptRows) add(err error) bool {
	var e *storage.Error
	if !errors.As(err, &e) || e.Code != storage.ErrCodeCorruptObj {
		c.aborted = err // nothing is known of this row nor of the next
		return true
	}
	if c.rows = append(c.rows, e); len(c.rows) == maxCorrupt {
		c.aborted = storage.ErrTooMany
	}
	return c.aborted != nil
}

func (c *corruptRows) err() error {
	if len(c.rows) == 0 {
		return c.aborted
	}
	return storage.CorruptList(c.rows, c.aborted)
}
