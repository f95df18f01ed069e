package rest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// ReadableLister is a Watcher that tells what can be read also where a watch of all fails with a StorageReadError.
type ReadableLister interface {
	// ListReadable returns the most recent objects, but for those that cannot be read. It fails where there are too many
	// of these.
	ListReadable(ctx context.Context) (*List, error)
}

// UnreadableError says why WaitFor does not wait: stored objects cannot be read, so that changes of the others do not
// come either.
type UnreadableError struct{ Err error }

// Error implements error.
func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns what the storage says.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Follower keeps a FollowHandler up to date with one resource, in process: what an informer is
// to a client.
type Follower struct {
	name    string
	source  Watcher
	handler FollowHandler
	logger  *slog.Logger
	// readable: see WithoutUnreadable. Nil: the stream is of all or breaks.
	readable ReadableLister
	// kick ends a pause: someone waits.
	kick chan struct{}

	mu     sync.Mutex
	seen   uint64        // guarded by mu; the handler has returned from every event up to it. Lower after a Replace by an earlier state
	synced bool          // guarded by mu
	moved  chan struct{} // guarded by mu; closed and replaced when seen or unreadable moves
	// unreadable counts the streams that broke as objects could not be read, why is why the last did. guarded by mu
	unreadable uint64
	why        error
	off        bool // guarded by mu; from such a break until the whole state has come
}

// NewFollower returns a Follower of source; name is for the log. Run starts it.
func NewFollower(name string, source Watcher, handler FollowHandler, logger *slog.Logger) *Follower {
	return &Follower{name: name, source: source, handler: handler, logger: logger, moved: make(chan struct{}), kick: make(chan struct{}, 1)}
}

// WithoutUnreadable has the handler given the readable objects, as a whole, now and then and when someone waits, as long as
// others cannot be read: for it those are none. It comes before Run.
func (f *Follower) WithoutUnreadable() {
	f.readable, _ = f.source.(ReadableLister)
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
		if apierrors.IsStoreReadError(err) {
			f.breakOff(ctx, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-f.kick:
			timer.Stop()
		case <-timer.C:
		}
		pause = min(2*pause, followRetryMax)
	}
}

// breakOff gives the handler what can be read where a stream broke as something cannot, or tells those who wait that it did.
func (f *Follower) breakOff(ctx context.Context, why error) {
	f.mu.Lock()
	f.off = true // before the list: who waits from now on wants another
	f.mu.Unlock()
	if f.readable != nil {
		list, err := f.readable.ListReadable(ctx)
		if err == nil {
			f.handler.Replace(list.Items)
			f.advance(list.ResourceVersion, true)
			return
		}
		f.logger.WarnContext(ctx, "what can be read is not known", "resource", f.name, "error", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unreadable++
	f.why = why
	f.moveLocked()
}

// moveLocked wakes those who wait.
func (f *Follower) moveLocked() {
	close(f.moved)
	f.moved = make(chan struct{})
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
				f.mu.Lock()
				f.off = false
				f.mu.Unlock()
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
	f.moveLocked()
}

// WaitSynced waits until the handler has had its first Replace.
func (f *Follower) WaitSynced(ctx context.Context) error {
	return f.wait(ctx, func() (bool, error) { return f.synced, nil })
}

// WaitKnown is WaitSynced where what is stored can be read: an UnreadableError, not WithoutUnreadable, where it cannot.
func (f *Follower) WaitKnown(ctx context.Context) error {
	return f.wait(ctx, func() (bool, error) {
		if !f.synced && f.unreadable > 0 {
			return false, &UnreadableError{f.why}
		}
		return f.synced, nil
	})
}

// WaitFor waits until the handler has returned from the event of resourceVersion, which must be
// that of a write to this resource. It returns an UnreadableError where no event comes as something stored cannot be read.
func (f *Follower) WaitFor(ctx context.Context, resourceVersion string) error {
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return err
	}
	// A stream that broke before may have been about what is mended meanwhile: the next one tells.
	f.mu.Lock()
	before, off := f.unreadable, f.off
	f.mu.Unlock()
	if off {
		select {
		case f.kick <- struct{}{}:
		default:
		}
	}
	return f.wait(ctx, func() (bool, error) {
		if f.seen < rv && f.unreadable > before {
			return false, &UnreadableError{f.why}
		}
		return f.seen >= rv, nil
	})
}

// wait waits until done, which is called with mu held, is true or fails.
func (f *Follower) wait(ctx context.Context, done func() (bool, error)) error {
	for {
		f.mu.Lock()
		ok, err := done()
		moved := f.moved
		f.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
