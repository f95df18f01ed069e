package rest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
)

// FollowHandler is told of every change of a resource, in order, by one goroutine.
type FollowHandler interface {
	// Replace gives the whole state: once at the start, and again when the stream was broken.
	Replace(objects []*document.Document)
	// Change gives one change: ADDED, MODIFIED or DELETED.
	Change(event Event)
}

// Follower keeps a FollowHandler up to date with one resource, in process: what an informer is
// to a client.
type Follower struct {
	name    string
	source  Watcher
	handler FollowHandler
	logger  *slog.Logger

	mu     sync.Mutex
	seen   uint64        // guarded by mu; the handler has returned from every event up to it. Lower after a Replace by an earlier state
	synced bool          // guarded by mu
	moved  chan struct{} // guarded by mu; closed and replaced when seen moves
}

// NewFollower returns a Follower of source; name is for the log. Run starts it.
func NewFollower(name string, source Watcher, handler FollowHandler, logger *slog.Logger) *Follower {
	return &Follower{name: name, source: source, handler: handler, logger: logger, moved: make(chan struct{})}
}

// followRetry is the pause before a broken stream is opened again, doubled up to followRetryMax as long as none lasts longer than
// that: one that breaks whenever it has given the whole state costs a list of all each time.
const (
	followRetry    = 50 * time.Millisecond
	followRetryMax = 5 * time.Second
)

// Run follows until ctx is done.
func (f *Follower) Run(ctx context.Context) {
	pause := followRetry
	for ctx.Err() == nil {
		synced, err := f.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if !synced.IsZero() && time.Since(synced) > followRetryMax {
			pause = followRetry
		}
		if err != nil && !errors.Is(err, io.EOF) {
			f.logger.WarnContext(ctx, "followed stream broke", "resource", f.name, "error", err, "retryIn", pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, followRetryMax)
	}
}

// stream follows one watch to its end. synced is when the whole state was given; zero: never.
func (f *Follower) stream(ctx context.Context) (synced time.Time, err error) {
	initial := true
	watch, err := f.source.Watch(ctx, &internalversion.ListOptions{
		SendInitialEvents:    &initial,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	})
	if err != nil {
		return time.Time{}, err
	}
	defer watch.Stop()
	var state []*document.Document
	for {
		events, err := watch.Next(ctx)
		if err != nil {
			return synced, err
		}
		for _, e := range events {
			switch {
			case e.Type == "BOOKMARK" && e.InitialEventsEnd:
				f.handler.Replace(state)
				state, initial, synced = nil, false, time.Now()
				f.advance(e.ResourceVersion, true)
				continue
			case e.Type == "BOOKMARK":
			case initial:
				state = append(state, e.Object)
				continue // not handled yet
			default:
				f.handler.Change(e)
			}
			if !initial {
				f.advance(e.ResourceVersion, false)
			}
		}
	}
}

// advance notes that all up to resourceVersion is handled. anew: nothing after it is, as where the storage was restored
// from an earlier state: what was seen of other writes with its revisions says nothing of those to come.
func (f *Follower) advance(resourceVersion string, anew bool) {
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced = true
	if rv > f.seen || anew {
		f.seen = rv
	}
	close(f.moved)
	f.moved = make(chan struct{})
}

// WaitSynced waits until the handler has had its first Replace.
func (f *Follower) WaitSynced(ctx context.Context) error {
	return f.wait(ctx, func() bool { return f.synced })
}

// WaitFor waits until the handler has returned from the event of resourceVersion, which must be
// that of a write to this resource.
func (f *Follower) WaitFor(ctx context.Context, resourceVersion string) error {
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return err
	}
	return f.wait(ctx, func() bool { return f.seen >= rv })
}

// wait waits until done, which is called with mu held, is true.
func (f *Follower) wait(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		ok, moved := done(), f.moved
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
