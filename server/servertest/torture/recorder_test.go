package torture_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// recorder writes down what etcd says has happened.
type recorder struct {
	client *clientv3.Client
	now    func() int64
	// prefix of the objects of the run, batches: see revisions. decode makes JSON of what is stored; nil: it is.
	prefix  string
	batches bool
	decode  func(ctx context.Context, key string, data []byte) ([]byte, error)
	// from is the revision from which it records.
	from int64
	// seen is the highest revision that it has seen all up to.
	seen atomic.Int64

	mu      sync.Mutex
	history *revisions // guarded by mu
	wrong   []string   // guarded by mu
	state   map[string]object
}

// newRecorder connects. The endpoints must not be behind what fails on purpose.
func newRecorder(endpoints []string, now func() int64) (*recorder, error) {
	again := backoff.DefaultConfig
	again.MaxDelay = time.Second
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 3 * time.Second})}})
	if err != nil {
		return nil, err
	}
	return &recorder{client: client, now: now, state: map[string]object{}}, nil
}

// begin reads the revision from which it records. Nothing may have been written yet.
func (r *recorder) begin(ctx context.Context) error {
	resp, err := r.client.Get(ctx, r.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if resp.Count != 0 {
		return fmt.Errorf("%d objects are there already", resp.Count)
	}
	r.from = resp.Header.Revision
	r.history = &revisions{from: r.from, batches: r.batches}
	r.seen.Store(resp.Header.Revision)
	return nil
}

// follow records until ctx is done.
func (r *recorder) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.watch(ctx); errors.Is(err, rpctypes.ErrCompacted) {
			r.complain("etcd's history is compacted at revision %d already", r.seen.Load())
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (r *recorder) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// watch follows one watch of etcd.
func (r *recorder) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range r.client.Watch(ctx, r.prefix, clientv3.WithPrefix(), clientv3.WithRev(r.seen.Load()+1)) {
		if err := resp.Err(); err != nil {
			return err
		}
		for _, e := range resp.Events {
			if err := r.take(ctx, e); err != nil {
				r.complain("%v", err)
			}
		}
		if resp.IsProgressNotify() {
			raise(&r.seen, resp.Header.Revision)
		}
		if n := len(resp.Events); n > 0 {
			raise(&r.seen, resp.Events[n-1].Kv.ModRevision)
		}
	}
	return ctx.Err()
}

func (r *recorder) take(ctx context.Context, e *clientv3.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := revision{rv: e.Kv.ModRevision, key: string(e.Kv.Key)[len(r.prefix):], seen: r.now()}
	if before, ok := r.state[c.key]; ok {
		c.before = &before
	}
	if e.Type == clientv3.EventTypeDelete {
		delete(r.state, c.key)
		return r.history.add(c)
	}
	data := e.Kv.Value
	var err error
	if r.decode != nil {
		data, err = r.decode(ctx, string(e.Kv.Key), data)
	}
	var w wire
	if err == nil {
		w, err = parse(data)
	}
	if err != nil {
		return fmt.Errorf("rv %d of %s: %w", c.rv, c.key, err)
	}
	o := w.object()
	o.rv = c.rv
	c.now = &o
	r.state[c.key] = o
	return r.history.add(c)
}

// catchUp waits until all that has happened so far is recorded.
func (r *recorder) catchUp(ctx context.Context) error {
	resp, err := r.client.Get(ctx, r.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	return eventually(ctx, 5*time.Millisecond, func(ctx context.Context) error {
		if seen := r.seen.Load(); seen < resp.Header.Revision {
			_ = r.client.RequestProgress(clientv3.WithRequireLeader(ctx)) // asked again
			return fmt.Errorf("etcd's watch is at %d, want %d", seen, resp.Header.Revision)
		}
		return nil
	})
}

// compacted is up to where servers have compacted etcd's history: by their own clock or, where etcd is asked itself, for
// whatever reason.
func (r *recorder) compacted(ctx context.Context, ask bool) (int64, error) {
	if ask {
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		resp := <-r.client.Watch(ctx, "nothing", clientv3.WithRev(1))
		return resp.CompactRevision, nil // 0: nothing is compacted
	}
	resp, err := r.client.Get(ctx, "compact_rev_key")
	if err != nil || len(resp.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64)
}

// end closes the client and returns what happened. follow must have ended.
func (r *recorder) end() (*revisions, []string) {
	_ = r.client.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history, r.wrong
}
