package cacher

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"weir.dev/weir/server/storage"
)

// Defaults of Config.
const (
	DefaultRingSize       = 1 << 17
	DefaultRingBytes      = 64 << 20
	DefaultFreshTimeout   = 3 * time.Second
	DefaultReadyTimeout   = 5 * time.Second
	DefaultBookmarkPeriod = time.Minute
)

const (
	// minRing is the capacity that a ring starts with and shrinks to, unless RingSize is less.
	minRing = 64
	// ringFreshness is how long a ring keeps an event as long as it may still grow;
	// upstream's eventFreshDuration.
	ringFreshness = 75 * time.Second
	// getWait bounds how long a consistent Get waits for the cache before it asks the
	// storage for the one row, which is never more work than a few waits.
	getWait = 20 * time.Millisecond
	// unreachableWait is how long a read waits for the first fill while the storage is not reached.
	unreachableWait = time.Second
	// fillPage is the number of rows read at a time when a cache is filled.
	fillPage = 10000
)

// Config configures a Cacher.
type Config struct {
	// Storage is what the Cacher stands on. Required.
	Storage storage.Interface
	// Prefix is where the keys of the resource start; it ends with "/". Required.
	Prefix string
	// Resource labels metrics and log lines.
	Resource schema.GroupResource
	// GetAttrs reads what selectors select by. Required.
	GetAttrs storage.AttrFunc
	// RingSize is the largest number of events kept, rounded up to a power of two.
	// A watch can go on from any of their revisions. 0 means DefaultRingSize.
	RingSize int
	// RingBytes bounds the memory of these events, in bytes: what they alone keep alive, which is above all the rows
	// that they have replaced. The oldest are forgotten, but for 100. A quarter of it may be taken by the states that are
	// kept for pages to come, beside what the events keep alive. 0 means DefaultRingBytes.
	RingBytes int64
	// Budget bounds the same for several cachers together; nil does not.
	Budget *Budget
	// FreshTimeout bounds the wait for a revision that the cache has not seen; 0 means DefaultFreshTimeout.
	FreshTimeout time.Duration
	// ReadyTimeout bounds the wait for a cache that is being filled; 0 means DefaultReadyTimeout.
	ReadyTimeout time.Duration
	// BookmarkPeriod is the time between the bookmarks of a watcher; 0 means DefaultBookmarkPeriod.
	BookmarkPeriod time.Duration
	// IdleTimeout is after how long without any use, a watcher among them, the cache is stopped; 0 never stops it.
	IdleTimeout time.Duration
	// CheckInterval is the time between comparisons with the storage, give or take a half; 0 makes none.
	CheckInterval time.Duration
	// CheckShare is the part of the time that comparisons may take: where the last one took so long that CheckInterval
	// is too short for it, the next comes later, and where nothing is written it comes later too; but not later than
	// five minutes after the last, unless CheckInterval is longer than that, or the cache is not level with its storage
	// then: it is tried at CheckInterval from there on. One that failed while it read the storage counts as one. 0 bounds
	// nothing.
	CheckShare float64
	// OnInconsistent is told of a difference that a comparison has found, after the cache has begun to be
	// filled again. It must not wait; nil is not told.
	OnInconsistent func(error)
	// Revision returns one that the storage has had some seconds ago, as somebody knows who asks for many caches; nil, or 0 told: each
	// asks.
	Revision func() uint64
	// Clock is the time; nil means the system's.
	Clock clock.Clock
	// Logger is told of re-initialisations and of rows that cannot be read; nil discards.
	Logger *slog.Logger
	// Metrics, shared by all cachers of a server; nil counts nothing.
	Metrics *Metrics
}

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Storage == nil {
		errs = append(errs, errors.New("storage is required"))
	}
	if len(c.Prefix) < 2 || !strings.HasSuffix(c.Prefix, "/") {
		errs = append(errs, errors.New(`prefix must end with "/" and be longer than that`))
	}
	if len(c.Prefix) > math.MaxUint16 {
		errs = append(errs, errors.New("prefix is too long"))
	}
	if c.GetAttrs == nil {
		errs = append(errs, errors.New("getAttrs is required"))
	}
	if c.RingSize < 0 || c.RingSize > 1<<24 {
		errs = append(errs, errors.New("ringSize must be from 0 to 2^24"))
	}
	if c.RingBytes < 0 {
		errs = append(errs, errors.New("ringBytes must not be negative"))
	}
	if c.FreshTimeout < 0 || c.ReadyTimeout < 0 || c.BookmarkPeriod < 0 || c.IdleTimeout < 0 || c.CheckInterval < 0 {
		errs = append(errs, errors.New("durations must not be negative"))
	}
	if c.CheckShare < 0 || c.CheckShare > 1 {
		errs = append(errs, errors.New("checkShare must be from 0 to 1"))
	}
	return errors.Join(errs...)
}

// withDefaults returns the configuration with its zero values filled in.
func (c Config) withDefaults() Config {
	if c.RingSize == 0 {
		c.RingSize = DefaultRingSize
	}
	if c.RingBytes == 0 {
		c.RingBytes = DefaultRingBytes
	}
	if c.FreshTimeout == 0 {
		c.FreshTimeout = DefaultFreshTimeout
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = DefaultReadyTimeout
	}
	if c.BookmarkPeriod == 0 {
		c.BookmarkPeriod = DefaultBookmarkPeriod
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	return c
}
