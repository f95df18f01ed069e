package etcd3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"weir.dev/weir/server/storage"
)

// Watch implements storage.Interface. ctx bounds the whole stream: when it is done,
// the stream ends with io.EOF. Of events that are not taken, two fragments and a window are kept, some
// MiB. After a third of a second what was read of them is kept for a quarter of a minute, 32 MiB at most for all watches of an
// etcd; the others are read again from etcd's history, and where they are compacted by then the watch ends with ErrCodeExpired. An etcd in this process keeps its batches of a thousand revisions besides, for as
// long and for all watches together. The events of a Bare watch are kept by the etcd client, without a bound.
//
// Bookmarks come at the end of the initial events, where SendInitialEvents and the
// predicate's AllowWatchBookmarks ask for it, and with Progress after
// RequestWatchProgress and as often as etcd is configured to send them.
func (s *Store) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	if err := s.checkKey(key, opts.Recursive); err != nil {
		return nil, err
	}
	rv, err := storage.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	history := s.health.current()
	initial := rv == 0
	if opts.SendInitialEvents != nil {
		initial = *opts.SendInitialEvents
	}
	// A watch from a future revision waits for it, but the state at it cannot be sent;
	// without the state, no revision means the current one.
	if initial == (rv > 0) {
		current, err := s.GetCurrentResourceVersion(ctx)
		if err != nil {
			return nil, err
		}
		if initial && rv > current {
			return nil, tooLargeRevision(rv, current)
		}
		if !initial {
			rv = current
		}
	}
	w := &watcher{
		store:     s,
		key:       key,
		recursive: opts.Recursive,
		predicate: opts.Predicate,
		all:       opts.Predicate.Empty(),
		progress:  opts.Progress,
		bare:      opts.Bare && opts.Predicate.Empty(),
		rev:       int64(rv),
		history:   history,
	}
	if history != nil {
		w.restored = history.over
	}
	w.etcd = s.client.Watcher
	w.ctx, w.cancel = context.WithCancel(s.watchContext(ctx))
	if initial {
		w.initial = &rows{prefix: key, next: key, limit: maxPage}
		w.bookmark = opts.SendInitialEvents != nil && opts.Predicate.AllowWatchBookmarks
	} else {
		w.open(ctx)
	}
	return w, nil
}

// watchContext is the context of etcd's watch stream: those of equal metadata, and one clientv3.Watcher, share one.
func (s *Store) watchContext(ctx context.Context) context.Context {
	return clientv3.WithRequireLeader(metadata.NewOutgoingContext(ctx, s.stream))
}

// watcher implements storage.Watcher. Next reads the initial rows page by page and then what has
// come from etcd, by a stream that is read as Next asks for it or, where it is bare, by etcd's client.
type watcher struct {
	store     *Store
	key       string
	recursive bool
	predicate storage.SelectionPredicate
	all       bool // the predicate selects everything
	progress  bool
	bare      bool // see storage.ListOptions
	etcd      clientv3.Watcher
	ctx       context.Context
	cancel    context.CancelFunc

	// initial are the initial rows still to be read, nil when there are none.
	initial *rows
	// bookmark says that one must end them.
	bookmark bool
	// rev is the revision up to which events are not sent.
	rev int64
	// events comes from etcd, nil before the initial rows are read.
	events clientv3.WatchChan
	// paced is where events come from unless the watch is bare; etcd otherwise.
	paced *paced
	// history is that of rev, nil where none is known. restored is closed when it did not happen.
	history  *history
	restored <-chan struct{}
	// err is why the stream is over.
	err error
	// taken: the step under way has got something, which would be lost if Next were to begin again.
	taken bool
	out   []storage.Event
}

var _ storage.Watcher = (*watcher)(nil)

// Stop implements storage.Watcher.
func (w *watcher) Stop() {
	if w.progress {
		w.store.progress.remove(w)
	}
	w.cancel()
}

// Next implements storage.Watcher.
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	clear(w.out)
	w.out = w.out[:0]
	for len(w.out) == 0 {
		if w.err == nil && w.ctx.Err() != nil {
			w.err = io.EOF
		}
		if w.err != nil {
			return nil, w.err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		step := w.receive
		if w.initial != nil {
			step = w.readInitial
		}
		w.taken = false
		if err := step(ctx); err != nil {
			if ctx.Err() != nil && w.ctx.Err() == nil && !w.taken {
				return nil, ctx.Err()
			}
			if w.ctx.Err() != nil {
				err = io.EOF
			}
			w.err = err
			w.Stop()
			// What came before the error is still good.
			if len(w.out) == 0 {
				return nil, err
			}
		}
	}
	return w.out, nil
}

// open starts etcd's watch behind rev. Until etcd has it, or ctx is done, it waits.
func (w *watcher) open(ctx context.Context) {
	if !w.bare {
		w.paced = newPaced(w.store.client, w.store.ahead)
	}
	if w.paced == nil {
		w.openClient()
	} else {
		w.openPaced(ctx)
	}
	if w.progress {
		w.store.progress.add(w)
		context.AfterFunc(w.ctx, func() {
			w.store.progress.remove(w)
			if w.paced == nil {
				_ = w.etcd.Close() // it says how the stream ended
			}
		})
	}
}

// openClient starts a watch of etcd's client.
func (w *watcher) openClient() {
	opts := []clientv3.OpOption{clientv3.WithRev(w.rev + 1)}
	if !w.bare {
		opts = append(opts, clientv3.WithPrevKV())
	}
	if w.recursive {
		opts = append(opts, clientv3.WithPrefix())
	}
	if w.progress {
		opts = append(opts, clientv3.WithProgressNotify())
		w.etcd = ownWatcher(w.store.client)
	}
	w.events = w.etcd.Watch(w.ctx, w.key, opts...)
}

// openPaced starts a watch that is read as Next asks for it.
func (w *watcher) openPaced(ctx context.Context) {
	w.paced.key, w.paced.progress, w.paced.next = w.key, w.progress, w.rev+1
	w.paced.current = w.store.GetCurrentResourceVersion
	if w.recursive {
		w.paced.end = clientv3.GetPrefixRangeEnd(w.key)
	}
	w.paced.start(w.ctx, w.store.client.Ctx())
	w.events = w.paced.out
	select {
	case <-w.paced.created:
	case <-ctx.Done():
	}
}

// readInitial appends a page of initial rows, and the bookmark behind the last.
func (w *watcher) readInitial(ctx context.Context) error {
	ctx, cancel := w.store.bound(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	p, err := w.readPage(ctx)
	if err != nil {
		return err
	}
	w.taken = true
	for i, kv := range p.kvs {
		p.kvs[i] = nil
		if !w.store.isRow(string(kv.Key)) {
			continue
		}
		// Not with ctx: a page that has been read must not be lost when the caller gives up.
		row, selected, err := w.store.listRow(w.ctx, string(kv.Key), kv, w.predicate)
		if err != nil {
			return err
		}
		if selected {
			w.out = append(w.out, storage.Event{Type: storage.Added, Row: row})
		}
	}
	if p.more {
		return nil
	}
	w.initial = nil
	w.rev = p.rev
	if w.bookmark {
		w.out = append(w.out, storage.Event{
			Type: storage.Bookmark, Row: storage.Row{ResourceVersion: uint64(p.rev)}, InitialEventsEnd: true,
		})
	}
	w.open(ctx)
	return nil
}

func (w *watcher) readPage(ctx context.Context) (page, error) {
	if w.recursive {
		return w.store.page(ctx, w.initial, "")
	}
	resp, err := w.store.client.KV.Get(ctx, w.key)
	if err != nil {
		return page{}, w.store.fail(ctx, w.key, err)
	}
	return page{kvs: resp.Kvs, rev: resp.Header.Revision}, nil
}

// receive waits for an answer of etcd and appends its events.
func (w *watcher) receive(ctx context.Context) error {
	resp, ok, err := w.answer(ctx)
	if err != nil {
		return err
	}
	w.taken = true
	if !ok {
		if w.paced != nil && w.paced.err != nil {
			return w.fail(w.paced.err)
		}
		// The client was closed.
		return io.EOF
	}
	if err := resp.Err(); err != nil {
		return w.fail(err)
	}
	w.history.tell(resp.Header.Revision)
	if resp.IsProgressNotify() {
		w.store.ops.bookmarked()
		if w.progress && resp.Header.Revision > w.rev {
			w.rev = resp.Header.Revision
			w.out = append(w.out, storage.Event{Type: storage.Bookmark, Row: storage.Row{ResourceVersion: uint64(w.rev)}})
		}
		return nil
	}
	w.store.ops.received(len(resp.Events))
	for _, e := range resp.Events {
		if w.store.isRow(string(e.Kv.Key)) {
			if err := w.add(e); err != nil {
				w.untear(uint64(e.Kv.ModRevision))
				return err
			}
		}
		w.rev = e.Kv.ModRevision
	}
	return nil
}

// answer waits for an answer of etcd. It is not ok when there is none any more.
func (w *watcher) answer(ctx context.Context) (resp clientv3.WatchResponse, ok bool, err error) {
	if w.paced != nil {
		w.paced.read()
		defer w.paced.rest()
	}
	select {
	case resp, ok = <-w.events:
		return resp, ok, nil
	case <-w.restored:
		return resp, false, &storage.Error{Code: storage.ErrCodeExpired, Key: w.key, Message: expiredWatch}
	case <-w.ctx.Done():
		return resp, false, io.EOF
	case <-ctx.Done():
		return resp, false, ctx.Err()
	}
}

// untear takes back the events of a revision whose others cannot be told: whoever has seen an event goes on behind its revision.
func (w *watcher) untear(rv uint64) {
	n := len(w.out)
	for n > 0 && w.out[n-1].Row.ResourceVersion == rv {
		n--
	}
	clear(w.out[n:])
	w.out = w.out[:n]
}

// add appends an event as its watcher sees it, if it does.
func (w *watcher) add(e *clientv3.Event) error {
	if w.bare {
		return w.addBare(e)
	}
	key := string(e.Kv.Key)
	rv := uint64(e.Kv.ModRevision)
	var now, before state
	prev, err := w.previous(e)
	if err != nil {
		return err
	}
	if e.Type != clientv3.EventTypeDelete {
		if now, err = w.store.state(w.ctx, key, e.Kv, false); err != nil {
			return err
		}
	}
	if prev != nil {
		if before, err = w.store.state(w.ctx, key, prev, false); err != nil {
			if e.Type == clientv3.EventTypeDelete && storage.CodeOf(err) == storage.ErrCodeCorruptObj {
				return deletedUnreadable(key, rv, err)
			}
			return err
		}
	}
	is, err := w.selected(now.row)
	if err != nil {
		return err
	}
	was, err := w.selected(before.row)
	if err != nil {
		return err
	}
	event := storage.Event{Row: now.row, Prev: before.row}
	switch {
	case is && was:
		event.Type = storage.Modified
	case is:
		event.Type = storage.Added
	case was:
		event.Type = storage.Deleted
		if event.Row, err = w.store.row(key, before.data, rv); err != nil {
			return err
		}
	default:
		return nil
	}
	w.out = append(w.out, event)
	return nil
}

// addBare appends an event without what was before.
func (w *watcher) addBare(e *clientv3.Event) error {
	key := string(e.Kv.Key)
	if e.Type == clientv3.EventTypeDelete {
		w.out = append(w.out, storage.Event{Type: storage.Deleted, Row: storage.Row{Key: key, ResourceVersion: uint64(e.Kv.ModRevision)}})
		return nil
	}
	now, err := w.store.state(w.ctx, key, e.Kv, false)
	if err != nil {
		return err
	}
	event := storage.Event{Type: storage.Modified, Row: now.row}
	if e.IsCreate() {
		event.Type = storage.Added
	}
	w.out = append(w.out, event)
	return nil
}

// previous returns the value before an event, nil for a created row. etcd leaves it out where it is
// compacted, and from events that it sends before it has noted that the watch, which has just
// begun, asks for it: then the value is read, as where etcd is not asked for it. One in this process has it: it is in the past.
func (w *watcher) previous(e *clientv3.Event) (*mvccpb.KeyValue, error) {
	if e.PrevKv != nil || e.IsCreate() {
		return e.PrevKv, nil
	}
	key, rv := string(e.Kv.Key), e.Kv.ModRevision
	opts := []clientv3.OpOption{clientv3.WithRev(rv - 1)}
	bound := w.store.bound
	if w.paced != nil && w.paced.near {
		// What is in this process can be read while its etcd agrees on nothing, and counts as down.
		opts = append(opts, clientv3.WithSerializable())
		bound = func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, w.store.timeout)
		}
	}
	ctx, cancel := bound(w.ctx)
	defer cancel()
	resp, err := w.store.client.KV.Get(ctx, key, opts...)
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return nil, w.store.fail(ctx, key, err)
	}
	if err != nil || len(resp.Kvs) == 0 {
		return nil, &storage.Error{Code: storage.ErrCodeExpired, Key: key, ResourceVersion: uint64(rv), Err: err,
			Message: fmt.Sprintf("%s (the value before revision %d is compacted)", expiredWatch, rv)}
	}
	return resp.Kvs[0], nil
}

// selected reports whether the watcher sees a row.
func (w *watcher) selected(row storage.Row) (bool, error) {
	if row.Value.IsZero() || w.all {
		return !row.Value.IsZero(), nil
	}
	selected, err := w.predicate.Matches(row.Value.Bytes())
	if err != nil {
		return false, corrupt(row.Key, err)
	}
	return selected, nil
}

// fail returns the error that ends a watch.
func (w *watcher) fail(err error) error {
	if errors.Is(err, rpctypes.ErrCompacted) {
		return &storage.Error{Code: storage.ErrCodeExpired, Key: w.key, Message: expiredWatch, Err: err}
	}
	return w.store.fail(w.ctx, w.key, err)
}
