package upstream

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	uptesting "k8s.io/apiserver/pkg/storage/testing"
	upvalue "k8s.io/apiserver/pkg/storage/value"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/value"
)

// storedPrefix is what the transformer of the suite puts in front of each value.
const storedPrefix = "test!"

// backend is a storage that the suite runs on.
type backend int

const (
	onEtcd backend = iota
	onEtcdGRPC
	onCacher
)

func (b backend) String() string { return [...]string{"etcd3", "etcd3 over gRPC", "cacher"}[b] }

// fixture is an empty storage with all that the suite wants to have in its hands.
type fixture struct {
	*adapter
	backend  backend
	client   *clientv3.Client
	prefix   *uptesting.PrefixTransformer
	current  *switched
	reads    *uptesting.KVRecorder
	recorder *uptesting.KubernetesRecorder
	cacher   *cacher.Cacher
}

// newFixture returns a storage on an etcd of its own.
func newFixture(t testing.TB, b backend) *fixture {
	t.Helper()
	f := &fixture{backend: b, adapter: &adapter{codec: newCodec()}}
	config := etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true}
	if b == onEtcdGRPC {
		config.ListenClient = "127.0.0.1:0"
	}
	etcd, err := etcd3.StartEmbedded(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Errorf("close etcd: %v", err)
		}
	})
	f.client = etcd.Client()
	if b == onEtcdGRPC {
		if f.client, err = etcd3.Dial(etcd3.DialConfig{Endpoints: []string{etcd.Addr().String()}}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.client.Close() })
	}
	f.recorder = uptesting.NewKubernetesRecorder(nullLister{})
	f.reads = uptesting.NewKVRecorder(lists{f.client.KV, f.recorder}, nil)
	f.client.KV = f.reads
	f.prefix = uptesting.NewPrefixTransformer([]byte(storedPrefix), false)
	f.current = &switched{}
	f.current.set(f.prefix)
	store, err := etcd3.New(etcd3.Config{Client: f.client, Prefix: root, Transformer: f.current})
	if err != nil {
		t.Fatal(err)
	}
	f.Interface = store
	if b == onCacher {
		f.cacher = newCacher(t, f.adapter, store, f.client)
		f.Interface = f.cacher
	}
	return f
}

// newCacher returns a cacher that follows its storage.
func newCacher(t testing.TB, a *adapter, store storage.Interface, client *clientv3.Client) *cacher.Cacher {
	t.Helper()
	attributes := a.attributes
	if attributes == nil {
		attributes = a.attrs
	}
	c, err := cacher.New(cacher.Config{
		Storage:  store,
		Prefix:   root + resource,
		Resource: schema.GroupResource{Resource: "pods"},
		GetAttrs: attributes,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if err := c.WaitUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	// Only one that is connected sees a revision after those that it was filled with.
	resp, err := client.Put(t.Context(), "connected", "")
	if err == nil {
		err = c.WaitUntil(t.Context(), uint64(resp.Header.Revision))
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// validate checks what is stored under a key.
func (f *fixture) validate(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	resp, err := f.client.Get(ctx, root+key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%d rows, %v", len(resp.Kvs), err)
	}
	stored, ok := bytes.CutPrefix(resp.Kvs[0].Value, []byte(storedPrefix))
	if !ok {
		t.Fatalf("stored value %q has not passed the transformer", resp.Kvs[0].Value)
	}
	obj, err := runtime.Decode(f.codec, stored)
	if err != nil {
		t.Fatal(err)
	}
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" || pod.SelfLink != "" {
		t.Errorf("stored with resourceVersion %q and selfLink %q", pod.ResourceVersion, pod.SelfLink)
	}
}

// calls checks how many requests a list took, and how many rows were read. From a cacher's memory it takes none; those
// that are seen are of the cacher itself.
func (f *fixture) calls(t *testing.T, pageSize, rows uint64) {
	t.Helper()
	if f.cacher != nil {
		return
	}
	const largestPage = 10000
	requests := uint64(1)
	if pageSize != 0 {
		limit := pageSize
		for sum := uint64(1); sum < rows; requests++ {
			limit = min(2*limit, largestPage)
			sum += limit
		}
	}
	if got := f.prefix.GetReadsAndReset(); got != rows {
		t.Errorf("%d rows were read, want %d", got, rows)
	}
	if got := f.reads.GetReadsAndReset(); got != requests {
		t.Errorf("etcd was asked %d times, want %d", got, requests)
	}
}

// compact drops the history before a revision from etcd and from the cache. A server does not tell its caches: the suite
// wants what is compacted to be refused, and they would go on with what they remember; see server.TestCompactedPast.
func (f *fixture) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	rv := parse(resourceVersion)
	if f.cacher != nil {
		if err := f.cacher.WaitUntil(ctx, rv); err != nil {
			t.Fatal(err)
		}
	}
	// As who compacts says to the other servers; a revision of its own.
	if _, err := f.client.Put(ctx, "compact_rev_key", resourceVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Compact(ctx, int64(rv), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if f.cacher != nil {
		f.cacher.Compact(rv)
	}
	f.compacted.Store(int64(rv))
}

// increase makes a revision that concerns no pod.
func (f *fixture) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	resp, err := f.client.Put(ctx, "increaseRV", "ok")
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// setFailing makes every read from etcd fail, or no more.
func (f *fixture) setFailing(failing bool) { f.current.failing.Store(failing) }

// UpdatePrefixTransformer implements upstream's InterfaceWithPrefixTransformer.
func (f *fixture) UpdatePrefixTransformer(modify uptesting.PrefixTransformerModifier) func() {
	// A new one, not a copy: the cacher's watch counts reads of f.prefix at any time.
	changed := uptesting.NewPrefixTransformer([]byte(storedPrefix), false)
	return f.UpdateTransformer(func(upvalue.Transformer) upvalue.Transformer { return modify(changed) })
}

// UpdateTransformer implements upstream's InterfaceWithTransformerOverride.
func (f *fixture) UpdateTransformer(modify uptesting.TransformerModifier) func() {
	before := f.current.get()
	f.current.set(modify(before))
	return func() { f.current.set(before) }
}

// keepProgress asks for progress until the test ends, as a cache does while someone
// waits for it.
func (f *fixture) keepProgress(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ticker := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-ticker.C:
				if err := f.RequestWatchProgress(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("request progress: %v", err)
				}
			case <-ctx.Done():
				ticker.Stop()
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// switched is a transformer that tests exchange.
type switched struct {
	mu      sync.RWMutex
	inner   upvalue.Transformer // guarded by mu
	failing atomic.Bool
	// exact: only errCorrupt says of a row that it is corrupt. With another error the transformer cannot work.
	exact bool
}

var (
	errFailing = errors.New("synthetic error")
	errCorrupt = errors.New("corrupt")
)

func (s *switched) get() upvalue.Transformer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.inner
}

func (s *switched) set(t upvalue.Transformer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inner = t
}

func (s *switched) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if s.failing.Load() {
		return nil, false, errFailing
	}
	out, stale, err := s.get().TransformFromStorage(ctx, data, dataCtx)
	if err != nil && s.exact && !errors.Is(err, errCorrupt) {
		err = &value.UnavailableError{Err: err}
	}
	return out, stale, err
}

func (s *switched) TransformToStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	return s.get().TransformToStorage(ctx, data, dataCtx)
}

// lists tells upstream's recorder of the ranges that are read.
type lists struct {
	clientv3.KV
	recorder *uptesting.KubernetesRecorder
}

func (l lists) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, opts...); len(op.RangeBytes()) > 0 && !op.IsCountOnly() {
		_, _ = l.recorder.List(ctx, key, kubernetes.ListOptions{Revision: op.Rev(), Limit: op.Limit()})
	}
	return l.KV.Get(ctx, key, opts...)
}

// nullLister lists nothing: the recorder is only told.
type nullLister struct{ kubernetes.Interface }

func (nullLister) List(context.Context, string, kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	return kubernetes.ListResponse{}, nil
}
