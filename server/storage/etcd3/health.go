package etcd3

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"weir.dev/weir/server/storage"
)

// Defaults of HealthConfig.
const (
	DefaultHealthInterval = 500 * time.Millisecond
	// DefaultHealthTimeout is, with the interval, longer than an election takes.
	DefaultHealthTimeout = 3500 * time.Millisecond
)

const (
	// idleLooks is at every how many looks an etcd is asked of which nobody wants anything.
	idleLooks = 10
	// downPause is the time between two questions to an etcd that does not answer.
	downPause = 100 * time.Millisecond
	// downTold is the time between lines of the log about an etcd that stays down.
	downTold = time.Minute
)

// errDown is the cause with which requests end that an etcd does not answer.
var errDown = errors.New("etcd does not answer")

// IsDown reports whether something failed because an etcd does not answer, which its Health has logged, also where an API status
// has no more of that than its text.
func IsDown(err error) bool {
	return errors.Is(err, errDown) || err != nil && strings.Contains(err.Error(), errDown.Error())
}

// HealthConfig says how an etcd is watched. Only Client is required.
type HealthConfig struct {
	Client *clientv3.Client
	// Embedded is whose Client it is; nil for an etcd elsewhere.
	Embedded *Embedded
	// Members are those of an etcd elsewhere, whose Client it is; nil where they are not asked one by one.
	Members *Members
	// Interval between looks at whether requests wait; 0 means DefaultHealthInterval.
	Interval time.Duration
	// Timeout is how long nothing at all may be answered before the etcd counts as down; 0 means DefaultHealthTimeout.
	Timeout time.Duration
	// Clock is for tests; nil means the real one.
	Clock clock.Clock
	// Logger is told when an etcd goes and comes; nil drops it.
	Logger *slog.Logger
}

// Validate returns why the configuration cannot work.
func (c HealthConfig) Validate() error {
	if c.Client == nil {
		return errors.New("etcd health: client missing")
	}
	if c.Interval < 0 || c.Timeout < 0 {
		return errors.New("etcd health: negative duration")
	}
	return nil
}

// Health knows whether an etcd answers, so that requests to one that does not fail at once and
// alike, instead of each waiting for its own deadline.
//
// When requests wait and none was answered since the last look, a linearizable read is tried. If it
// fails and no other request was answered meanwhile either, the etcd is down: reads that wait end, and new requests are
// not sent, until a read succeeds. Writes that wait go on to their own deadlines: whether they happened can only be learned
// from the answer, which may still come. An etcd that is merely slow still answers something, so it is never
// down. One that nobody asks is asked now and then. It is safe for concurrent use; a nil Health always is well.
type Health struct {
	client   *clientv3.Client
	embedded *Embedded
	members  *Members
	interval time.Duration
	timeout  time.Duration
	clock    clock.Clock
	logger   *slog.Logger

	waiting  atomic.Int64  // requests under way
	answered atomic.Uint64 // requests that were answered, so far
	turned   atomic.Int64  // requests that were not sent, as the etcd is down
	phase    atomic.Pointer[phase]

	history atomic.Pointer[history]
	// seen is the revision of the last answer to a question of its own; only run's goroutine changes it.
	seen atomic.Int64
	// asking is the question under way; only run's goroutine uses it, as those below.
	asking chan answer
	// told is when the log said last that the etcd is down, since downSince.
	told, downSince time.Time

	refusals refusals
	// ahead is what watches of the etcd keep, of all its Stores.
	ahead ahead

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// phase is a time in which an etcd was up, or down.
type phase struct {
	// err is why it is down, nil while it is up. next is that of the phase behind it, set before over ends.
	err, next error
	// why is err with what is known of each member, for operators: it names addresses.
	why error
	// over ends with the phase.
	over context.Context //nolint:containedctx // it is what the requests of the phase hang on
	end  context.CancelFunc
}

func newPhase(err error) *phase {
	p := &phase{err: err, why: err}
	p.over, p.end = context.WithCancel(context.Background())
	return p
}

// StartHealth starts a Health, which works until Close. At first the etcd counts as up.
func StartHealth(cfg HealthConfig) (*Health, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Health{client: cfg.Client, embedded: cfg.Embedded, members: cfg.Members, interval: cfg.Interval, timeout: cfg.Timeout, clock: cfg.Clock, logger: cfg.Logger}
	if h.interval == 0 {
		h.interval = DefaultHealthInterval
	}
	if h.timeout == 0 {
		h.timeout = DefaultHealthTimeout
	}
	if h.clock == nil {
		h.clock = clock.RealClock{}
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	h.phase.Store(newPhase(nil))
	h.history.Store(newHistory())
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	h.done.Go(func() { h.run(ctx) })
	return h, nil
}

// Close stops the Health and waits for it. It may be called more than once.
func (h *Health) Close() {
	h.cancel()
	h.done.Wait()
}

// Down returns nil, or why the etcd counts as down.
func (h *Health) Down() error {
	if h == nil {
		return nil
	}
	return h.phase.Load().err
}

// Why is Down for operators: it says of each member what is wrong, with its address.
func (h *Health) Why() error {
	if h == nil {
		return nil
	}
	return h.phase.Load().why
}

// full returns why the etcd has refused a write for want of space: of an embedded one, nil for another.
func (h *Health) full() *FullError {
	if h == nil || h.embedded == nil {
		return nil
	}
	return h.embedded.space.why()
}

// Revision returns the etcd's of some seconds ago at most, while it answers; 0: it is not known, or not yet.
func (h *Health) Revision() uint64 {
	if h == nil {
		return 0
	}
	return uint64(max(h.seen.Load(), 0))
}

// readAhead returns the bound on what watches of the etcd keep, nil for none.
func (h *Health) readAhead() *ahead {
	if h == nil {
		return nil
	}
	return &h.ahead
}

// during ends ctx, of which cancel is the end, when the etcd goes down, with that as the cause: it may be up again when
// the request fails. The function that it returns takes the place of cancel.
func (h *Health) during(ctx context.Context, cancel context.CancelFunc) (context.Context, context.CancelFunc) {
	if h == nil {
		return ctx, cancel
	}
	p := h.phase.Load()
	ctx, end := context.WithCancelCause(ctx)
	if p.err != nil {
		h.turned.Add(1)
		end(p.err)
		return ctx, cancel
	}
	h.waiting.Add(1)
	detach := context.AfterFunc(p.over, func() { end(p.next) })
	return ctx, func() {
		detach()
		cancel()
		h.waiting.Add(-1)
	}
}

// wait counts a request that goes on when the etcd goes down, of which cancel is the end. The function that it returns
// takes the place of cancel.
func (h *Health) wait(ctx context.Context, cancel context.CancelFunc) (context.Context, context.CancelFunc) {
	if h == nil {
		return ctx, cancel
	}
	h.waiting.Add(1)
	return ctx, func() {
		cancel()
		h.waiting.Add(-1)
	}
}

// observe is told how a request ended.
func (h *Health) observe(err error) {
	if h == nil {
		return
	}
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return
	default:
		switch classify(err) {
		case storage.ErrCodeTimeout, storage.ErrCodeUnreachable:
			return
		case storage.ErrCodeNoSpace: // a full one refuses without a look at its data, which may be blocked
			return
		}
	}
	h.Answered()
}

// Answered tells that the etcd has answered something that was not asked through a Store.
func (h *Health) Answered() { h.answered.Add(1) }

// downDuring returns why the etcd went down where that ended a request with err, whose context is one of during.
func downDuring(ctx context.Context, err error) error {
	if down := context.Cause(ctx); isCanceled(err) && errors.Is(down, errDown) {
		return down
	}
	return nil
}

func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
}

// failure returns the error of a write that ended with err because the etcd is down, nil when that is not why.
func (h *Health) failure(key string, err error) error {
	if err == nil || h == nil {
		return nil
	}
	down := h.Down()
	switch {
	case errors.Is(err, errDown): // it was not sent
		if down == nil {
			down = err
		}
		return unreachable(key, down)
	case down == nil || !isCanceled(err):
		return nil
	}
	return &storage.Error{Code: storage.ErrCodeTimeout, Key: key, Message: down.Error() + "; the write may have happened", Err: down}
}

func (h *Health) run(ctx context.Context) {
	answered := h.answered.Load()
	for idle := 1; ; idle++ {
		pause := h.interval
		if h.Down() != nil {
			pause = downPause
		}
		timer := h.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		h.tellRefusals()
		before := answered
		answered = h.answered.Load()
		stuck := h.waiting.Load() > 0 && answered == before
		if h.Down() == nil && !stuck && idle < idleLooks {
			continue
		}
		idle = 0
		began := time.Now()
		err := h.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || h.answered.Load() != answered || h.members.answeredSince(began):
			h.set(nil)
		default:
			h.set(fmt.Errorf("%w: %w", errDown, err))
		}
		answered = h.answered.Load()
	}
}

// answer is that of an etcd to a Health.
type answer struct {
	revision int64 // 0: it is not told
	err      error
	asked    question
}

// ask tries a linearizable read. An embedded etcd that is being defragmented heeds no deadline: the question that it was
// asked last is the one that it has to answer.
func (h *Health) ask(ctx context.Context) error {
	if h.asking == nil {
		asking := make(chan answer, 1)
		h.asking = asking
		asked := h.question()
		h.done.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, h.timeout)
			defer cancel()
			resp, err := h.client.KV.Get(ctx, "\x00", clientv3.WithCountOnly())
			switch {
			case err == nil:
				asking <- answer{revision: resp.Header.Revision, asked: asked}
			case codeOf(err) == codes.PermissionDenied: // its users may only have what is below a prefix; it has agreed on that
				asking <- answer{}
			default:
				asking <- answer{err: err}
			}
		})
	}
	heedless := h.clock.NewTimer(h.timeout + downPause)
	defer heedless.Stop()
	select {
	case a := <-h.asking:
		h.asking = nil
		if a.revision != 0 {
			h.seen.Store(a.revision)
			h.heard(a.asked, a.revision)
		}
		return a.err
	case <-heedless.C():
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// set begins a phase unless the one that there is says the same.
func (h *Health) set(err error) {
	was := h.phase.Load()
	why := err
	if failed := h.members.Failed(); err != nil && failed != nil {
		why = fmt.Errorf("%w: %w", errDown, failed)
	}
	if (was.err == nil) == (err == nil) && (why == nil || why.Error() == was.why.Error()) {
		h.tellDown(was.why)
		return
	}
	was.next = err
	now := newPhase(err)
	now.why = why
	h.phase.Store(now)
	was.end()
	switch {
	case err == nil:
		h.logger.Info("etcd answers again", "endpoints", h.endpoints(), "after", h.clock.Now().Sub(h.downSince).Round(time.Millisecond))
	case was.err == nil:
		h.told, h.downSince = h.clock.Now(), h.clock.Now()
		h.turned.Store(0)
		h.logger.Error("etcd is down", "endpoints", h.endpoints(), "error", why)
	default:
		h.tellDown(why)
	}
}

// tellDown says once in a while that an etcd is still down.
func (h *Health) tellDown(why error) {
	now := h.clock.Now()
	if why == nil || now.Sub(h.told) < downTold {
		return
	}
	h.told = now
	h.logger.Error("etcd is still down", "endpoints", h.endpoints(), "since", h.downSince, "refused", h.turned.Load(), "error", why)
}

// endpoints are those of the configuration, also of members that get no requests now.
func (h *Health) endpoints() []string {
	if h.members == nil {
		return h.client.Endpoints()
	}
	return slices.Sorted(maps.Keys(h.members.Answering()))
}
