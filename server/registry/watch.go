package registry

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// sharedEvents is how many of the latest events' documents watchers share. A watcher that is further
// behind makes its own.
const sharedEvents = 64

// Watch implements rest.Watcher.
func (s *Store) Watch(ctx context.Context, opts *internalversion.ListOptions) (rest.Watch, error) {
	key, o, err := s.selection(ctx, opts)
	if err != nil {
		return nil, err
	}
	w, err := s.cfg.Storage.Watch(ctx, key, o)
	if err != nil {
		return nil, s.failed("watch", "", err)
	}
	s.watches.Add(1)
	return &watch{store: s, events: w}, nil
}

// watch makes documents of storage's events.
type watch struct {
	store   *Store
	events  storage.Watcher
	buf     []rest.Event
	stopped atomic.Bool
}

// Stop implements rest.Watch. With the last watch goes what watches share: a cache that is stopped as nobody uses it frees its
// rows.
func (w *watch) Stop() {
	w.events.Stop()
	if w.stopped.Swap(true) || w.store.watches.Add(-1) > 0 {
		return
	}
	for i := range w.store.shared {
		w.store.shared[i].Store(nil)
	}
}

// Next implements rest.Watch.
func (w *watch) Next(ctx context.Context) ([]rest.Event, error) {
	w.forget()
	events, err := w.events.Next(ctx)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, w.store.failed("watch", "", err)
	}
	return w.documents(events)
}

// Offer implements rest.Offerer. Where the storage cannot, take is never called.
func (w *watch) Offer(take rest.Take, group uint64) {
	events, ok := w.events.(storage.Offerer)
	if !ok {
		return
	}
	events.Offer(func(events []storage.Event) (taken bool, later func()) {
		out, err := w.documents(events)
		if err != nil {
			return false, nil // Next's caller will see it
		}
		defer w.forget()
		return take(out)
	}, group)
}

// maxKeptEvents is how much memory for events a watch that waits keeps.
const maxKeptEvents = 16

// forget ends what documents has returned: a watch that waits holds no objects.
func (w *watch) forget() {
	clear(w.buf)
	w.buf = w.buf[:0]
	if cap(w.buf) > maxKeptEvents {
		w.buf = nil
	}
}

// documents returns events with their objects, until forget.
func (w *watch) documents(events []storage.Event) ([]rest.Event, error) {
	w.forget()
	for _, e := range events {
		out := rest.Event{Type: string(e.Type), InitialEventsEnd: e.InitialEventsEnd}
		if e.Type == storage.Bookmark {
			out.ResourceVersion = storage.FormatResourceVersion(e.Row.ResourceVersion)
		} else {
			shared, err := w.store.share(e.Row)
			if err != nil {
				return nil, err
			}
			out.Object, out.ResourceVersion = shared.obj, shared.rv
		}
		w.buf = append(w.buf, out)
	}
	return w.buf, nil
}

// share returns what watchers are given of an event, the same for all that are about as far, so that it is indexed
// once.
func (s *Store) share(row storage.Row) (*sharedEvent, error) {
	slot := &s.shared[row.ResourceVersion%sharedEvents]
	if have := slot.Load(); have != nil && have.stored.Is(row.Value) {
		return have, nil
	}
	obj, err := s.upgrade(stored(row.Value))
	if err != nil {
		return nil, err
	}
	made := &sharedEvent{stored: row.Value, obj: obj, rv: storage.FormatResourceVersion(row.ResourceVersion)}
	slot.Store(made)
	if s.watches.Load() == 0 {
		slot.CompareAndSwap(made, nil) // the last watch has been stopped meanwhile, and what it shared is gone
	}
	return made, nil
}

// sharedEvent is the object of an event, the text it was stored as, and its revision.
type sharedEvent struct {
	stored storage.Text
	obj    *document.Document
	rv     string
}
