package cacher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"weir.dev/weir/server/storage"
)

// Cacher implements storage.Interface for one resource.
//
// It starts at the first list, watch, or get of a resourceVersion, and stops when nobody has used it for
// Config.IdleTimeout; the next use starts it again. Without rows it costs nothing and passes everything on. While it is being filled, a Get, and a list with a
// limit and without selectors, go to the storage; others wait a little and then fail
// with storage.ErrCodeNotReady.
type Cacher struct {
	config  Config
	metrics *instruments
	hub     hub
	pending pending
	flights flights
	usage   usage
	pasts   pasts
	kept    snapshots
	views   views
	// indexing says which indexes rows has.
	indexing indexing

	// mu orders the tree, the ring's writer and rv: under it they are of one state.
	mu   sync.RWMutex
	rows tree // guarded by mu
	// frozen is a copy of rows as they are, nil after a change. guarded by mu
	frozen *tree
	ring   ring

	// rv is the revision that the cache reflects. It is stored after the events up to it
	// are visible in the ring: who reads rv and then finds nothing more in the ring has
	// seen everything up to rv. It falls only with a cut.
	rv       atomic.Uint64
	advanced signal // fired when rv changes
	waiters  atomic.Int32
	// kick asks for the revision of the storage to be sent down the watch.
	kick chan struct{}
	// asked counts what RequestWatchProgress was called, asking is fired when it is.
	asked  atomic.Uint64
	asking signal
	// refill asks for a new list, because the storage has lost revisions.
	refill chan struct{}
	// lastNudge is when a bookmark last asked for progress, in nanoseconds.
	lastNudge atomic.Int64
	// connected: the cache follows a watch.
	connected atomic.Bool
	// trouble is why the last attempt to fill the cache failed, where stored objects cannot be
	// read or the storage is not reached at all; nil otherwise.
	trouble atomic.Pointer[storage.Error]
	// following ends the watch that the cache follows, or is about to; nil while there is none.
	following atomic.Pointer[context.CancelCauseFunc]
	told      told
	// direct is how many watches of the storage others have in place of this cache, see watchStorage.
	direct atomic.Int64
	// suspect: a comparison has found the cache to be wrong, so nothing of it is kept at the next fill.
	suspect atomic.Bool
	// repair is sent to when an object that could not be read may be gone.
	repair chan struct{}

	lifecycle sync.Mutex
	started   bool               // guarded by lifecycle
	cancel    context.CancelFunc // guarded by lifecycle
	// session are the goroutines of one start, work all others. Add is guarded by lifecycle.
	session, work sync.WaitGroup
	// filled is closed while the cache has rows. guarded by lifecycle
	filled  chan struct{}
	isReady atomic.Bool
	stopped chan struct{}
	isStop  atomic.Bool

	batches sync.Pool
}

var _ storage.Interface = (*Cacher)(nil)

// New returns a Cacher that has not started. Its error is one of Config.Validate.
func New(config Config) (*Cacher, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("cacher: %w", err)
	}
	config = config.withDefaults()
	c := &Cacher{
		config:  config,
		metrics: config.Metrics.of(config.Resource),
		rows:    newTree(),
		kick:    make(chan struct{}, 1),
		refill:  make(chan struct{}, 1),
		repair:  make(chan struct{}, 1),
		filled:  make(chan struct{}),
		stopped: make(chan struct{}),
	}
	size := 1 << bits.Len(uint(config.RingSize-1))
	c.ring.budget, c.ring.kept = config.Budget, &c.kept
	c.kept.init(&c.ring, config.RingBytes/snapshotShare)
	c.ring.init(min(minRing, size), size, config.RingBytes)
	c.hub.delivery.wake = make(chan struct{}, 1)
	config.Budget.join(c)
	return c, nil
}

// Stop ends all watchers with io.EOF and all goroutines, and waits for these. The
// Cacher then passes reads and writes on to the storage and refuses watches.
func (c *Cacher) Stop() {
	c.lifecycle.Lock()
	if !c.isStop.Swap(true) {
		close(c.stopped)
		c.isReady.Store(false)
		if c.cancel != nil {
			c.cancel()
		}
		if c.started {
			c.metrics.running.Add(-1)
		}
	}
	c.lifecycle.Unlock()
	c.hub.fireAll() // watchers look whether it is over
	c.flights.stop()
	c.pasts.stop()
	c.work.Wait()
	c.session.Wait()
	c.kept.close()
	c.config.Budget.leave(c)
}

// start starts the cache unless it has.
func (c *Cacher) start() {
	if c.isReady.Load() || c.isStop.Load() {
		return
	}
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	if c.started || c.isStop.Load() {
		return
	}
	c.started = true
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	c.metrics.running.Add(1)
	c.launchLocked(ctx)
}

// spawn runs work in a goroutine that Stop waits for. It does not, and returns false, after Stop.
func (c *Cacher) spawn(work func()) bool {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	if c.isStop.Load() {
		return false
	}
	c.work.Add(1)
	go func() {
		defer c.work.Done()
		work()
	}()
	return true
}

// setReady says whether the cache has rows.
func (c *Cacher) setReady(ready bool) {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	if c.isReady.Load() == ready || c.isStop.Load() {
		return
	}
	c.isReady.Store(ready)
	if ready {
		close(c.filled)
		c.advanced.fire(0) // WaitUntil waits for both
	} else {
		c.filled = make(chan struct{})
	}
}

// awaitReady starts the cache and waits until it is filled: ErrCodeNotReady after ReadyTimeout, ErrCodeCorruptObj
// as soon as it is known that stored objects cannot be read, ErrCodeUnreachable when the storage is away for longer
// than a moment.
func (c *Cacher) awaitReady(ctx context.Context) error {
	c.start()
	if c.isReady.Load() {
		return nil
	}
	c.lifecycle.Lock()
	filled := c.filled
	c.lifecycle.Unlock()
	timer := c.config.Clock.NewTimer(c.config.ReadyTimeout)
	defer timer.Stop()
	moment := c.config.Clock.NewTimer(min(unreachableWait, c.config.ReadyTimeout))
	defer moment.Stop()
	waited := false
	for {
		g := c.advanced.arm()
		if err := c.trouble.Load(); err != nil && (waited || err.Code == storage.ErrCodeCorruptObj) {
			return err
		}
		select {
		case <-g.fired:
			continue
		case <-moment.C():
			waited = true
			continue
		case <-filled:
			if !c.isStop.Load() {
				return nil
			}
		case <-c.stopped:
		case <-timer.C():
		case <-ctx.Done():
			return ctx.Err()
		}
		return c.notReady()
	}
}

func (c *Cacher) notReady() error {
	message := "storage is (re)initializing"
	if c.isStop.Load() {
		message = "storage is shut down"
	}
	return &storage.Error{Code: storage.ErrCodeNotReady, Key: c.config.Prefix, Message: message}
}

// fresh reports whether the cache follows its storage.
func (c *Cacher) fresh() bool { return c.isReady.Load() && c.connected.Load() }

// suffix returns the key after the cache's prefix. It is false for a key that is not a
// clean one below the prefix, which is left to the storage.
func (c *Cacher) suffix(key string, recursive bool) (string, bool) {
	suffix, ok := strings.CutPrefix(key, c.config.Prefix)
	if !ok {
		return "", false
	}
	rest := suffix
	if recursive {
		if rest == "" {
			return "", true
		}
		if rest, ok = strings.CutSuffix(rest, "/"); !ok {
			return "", false
		}
	}
	return suffix, rest != "" && rest[0] != '/' && rest != "." && rest != ".." && !strings.HasPrefix(rest, "../") && path.Clean(rest) == rest
}

// Progress returns the revision that the cache reflects, 0 before it is filled. Every
// event up to it has been put before the watchers.
func (c *Cacher) Progress() uint64 { return c.rv.Load() }

// WaitUntil starts the cache and waits until it reflects revision rv. It returns the
// error of ctx, or io.EOF after Stop.
func (c *Cacher) WaitUntil(ctx context.Context, rv uint64) error {
	c.usage.enter()
	defer c.usage.leave()
	c.start()
	if c.rv.Load() >= rv {
		return nil
	}
	c.waiters.Add(1)
	defer c.waiters.Add(-1)
	c.requestProgress()
	for {
		g := c.advanced.arm()
		if c.rv.Load() >= rv && c.isReady.Load() {
			return nil
		}
		select {
		case <-g.fired:
		case <-c.stopped:
			return io.EOF
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ReadinessCheck implements storage.Interface. A cache that nobody has used is as ready
// as its storage.
func (c *Cacher) ReadinessCheck() error {
	if c.isReady.Load() {
		return nil
	}
	c.lifecycle.Lock()
	started := c.started
	c.lifecycle.Unlock()
	if started {
		return c.notReady()
	}
	return c.config.Storage.ReadinessCheck()
}

// RequestWatchProgress implements storage.Interface, for the watchers with Progress.
func (c *Cacher) RequestWatchProgress(ctx context.Context) error {
	c.asked.Add(1)
	c.asking.fire(0)
	if err := c.config.Storage.RequestWatchProgress(ctx); err != nil {
		return err
	}
	// The revision may be one that the cache is at already.
	c.advanced.fire(0)
	return nil
}

// GetCurrentResourceVersion implements storage.Interface. Calls that wait at the same
// time share one question.
func (c *Cacher) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	rv, err := c.currentRevision(ctx)
	if errors.Is(err, errStale) {
		err = nil
	}
	return rv, err
}
