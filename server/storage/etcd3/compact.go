package etcd3

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"
)

const (
	// DefaultCompactionInterval is how often, and to which age, history is dropped.
	DefaultCompactionInterval = 5 * time.Minute

	// compactRevKey holds the revision compacted last; its version is the logical
	// clock on which the servers agree who compacts. It is upstream's key, so that
	// servers of both kinds can share an etcd.
	compactRevKey = "compact_rev_key"
)

// CompactorConfig says how history is dropped. Only Client is required.
type CompactorConfig struct {
	Client *clientv3.Client
	// Interval is the time between compactions, each up to the revision that was
	// current one interval earlier; 0 means DefaultCompactionInterval.
	Interval time.Duration
	// Clock is for tests; nil means the real one.
	Clock clock.Clock
	// Logger gets failures; nil drops them.
	Logger *slog.Logger
}

// Validate returns why the configuration cannot work.
func (c CompactorConfig) Validate() error {
	if c.Client == nil {
		return errors.New("etcd compactor: client missing")
	}
	if c.Interval < 0 {
		return errors.New("etcd compactor: negative interval")
	}
	return nil
}

// Compactor drops the history of etcd that is older than its interval. Of several
// that share an etcd one does the work, another takes over when it is gone.
type Compactor struct {
	client   *clientv3.Client
	interval time.Duration
	clock    clock.Clock
	logger   *slog.Logger

	revision atomic.Int64
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// StartCompactor starts a Compactor, which runs until Close.
func StartCompactor(cfg CompactorConfig) (*Compactor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Compactor{client: cfg.Client, interval: cfg.Interval, clock: cfg.Clock, logger: cfg.Logger}
	if c.interval == 0 {
		c.interval = DefaultCompactionInterval
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.done.Go(func() { c.run(ctx) })
	return c, nil
}

// Close stops the Compactor and waits for it. It may be called more than once.
func (c *Compactor) Close() {
	c.cancel()
	c.done.Wait()
}

// Revision returns the latest revision known to be compacted, 0 for none. It lags
// behind another server's compaction by one interval at most, and behind that of an
// etcd which makes room by two.
func (c *Compactor) Revision() int64 { return c.revision.Load() }

func (c *Compactor) run(ctx context.Context) {
	var turn compaction
	for {
		timer := c.clock.NewTimer(c.interval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		var compacted int64
		var err error
		turn, compacted, err = compactOnce(ctx, c.client, turn)
		if err != nil && ctx.Err() == nil {
			c.logger.WarnContext(ctx, "etcd compaction failed", "error", err)
		}
		if compacted > 0 {
			c.revision.Store(compacted)
		}
	}
}

// compaction is what one server remembers from its last turn.
type compaction struct {
	// version of compactRevKey: the logical time. 0: the key does not exist.
	version int64
	// revision that was current then.
	revision int64
}

// compactOnce takes a turn: if no other server has had one since last, the history up
// to last's revision is dropped. It returns what to remember and which revision is
// known to be compacted, 0 for none.
func compactOnce(ctx context.Context, client *clientv3.Client, last compaction) (next compaction, compacted int64, err error) {
	resp, err := client.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(compactRevKey), "=", last.version)).
		Then(clientv3.OpPut(compactRevKey, strconv.FormatInt(last.revision, 10))).
		Else(clientv3.OpGet(compactRevKey)).
		Commit()
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return compactFull(ctx, client, last)
	}
	if err != nil {
		return last, 0, fmt.Errorf("etcd compactor: %w", err)
	}
	next.revision = resp.Header.Revision
	if !resp.Succeeded {
		kv := first(resp.Responses[0].GetResponseRange().Kvs)
		if kv == nil {
			// The key was removed by hand: the clock begins again.
			return next, 0, nil
		}
		next.version = kv.Version
		if compacted, err = strconv.ParseInt(string(kv.Value), 10, 64); err != nil {
			return next, 0, nil //nolint:nilerr // another's value, of no use to us
		}
		return next, compacted, nil
	}
	next.version = last.version + 1
	compacted, err = compact(ctx, client, last)
	return next, compacted, err
}

// compactFull takes a turn in an etcd that is full and refuses the write by which servers agree who has it. Each has it then:
// a compaction may be asked for twice, and history that is not dropped is what would keep the etcd full.
func compactFull(ctx context.Context, client *clientv3.Client, last compaction) (next compaction, compacted int64, err error) {
	resp, err := client.KV.Get(ctx, compactRevKey)
	if err != nil {
		return last, 0, fmt.Errorf("etcd compactor: %w", err)
	}
	next.revision = resp.Header.Revision
	if kv := first(resp.Kvs); kv != nil {
		next.version = kv.Version
	}
	compacted, err = compact(ctx, client, last)
	return next, compacted, err
}

// compact drops the history up to last's revision.
func compact(ctx context.Context, client *clientv3.Client, last compaction) (compacted int64, err error) {
	if last.revision == 0 {
		return 0, nil
	}
	if _, err := client.KV.Compact(ctx, last.revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, fmt.Errorf("etcd compactor: revision %d: %w", last.revision, err)
	}
	return last.revision, nil
}
