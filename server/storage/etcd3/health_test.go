package etcd3_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
)

// pausedKV is the KV of an etcd that can be made to answer nothing, and slowly.
type pausedKV struct {
	clientv3.KV
	paused atomic.Pointer[chan struct{}] // closed when it goes on
	// asked: the Health is answered nevertheless.
	asked atomic.Bool
	// waited counts the requests that have waited.
	waited atomic.Int64
	// heedless requests do not end with their contexts, as those in process of an etcd that is being defragmented.
	heedless atomic.Bool
	// late is closed when requests about objects that have ended may return; nil: at once.
	late chan struct{}
}

func (p *pausedKV) pause() (resume func()) {
	wait := make(chan struct{})
	p.paused.Store(&wait)
	return sync.OnceFunc(func() { p.paused.Store(nil); close(wait) })
}

func (p *pausedKV) wait(ctx context.Context) error {
	if wait := p.paused.Load(); wait != nil {
		p.waited.Add(1)
		if p.heedless.Load() {
			<-*wait
			return nil
		}
		select {
		case <-*wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *pausedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if key == "\x00" && p.asked.Load() {
		return p.KV.Get(ctx, key, opts...)
	}
	if err := p.wait(ctx); err != nil {
		if p.late != nil && key != "\x00" {
			<-p.late
		}
		return nil, err
	}
	return p.KV.Get(ctx, key, opts...)
}

func (p *pausedKV) Txn(ctx context.Context) clientv3.Txn { return &pausedTxn{p.KV.Txn(ctx), p, ctx} }

type pausedTxn struct {
	clientv3.Txn
	kv  *pausedKV
	ctx context.Context
}

func (t *pausedTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.Txn = t.Txn.If(cs...); return t }
func (t *pausedTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(ops...); return t }
func (t *pausedTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }
func (t *pausedTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := t.kv.wait(t.ctx); err != nil {
		return nil, err
	}
	return t.Txn.Commit()
}

// newWatched returns a store whose etcd can be paused, with its client and its Health.
func newWatched(t *testing.T) (*etcd3.Store, *clientv3.Client, *etcd3.Health, *pausedKV) {
	t.Helper()
	e, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	client := e.Client()
	kv := &pausedKV{KV: client.KV}
	client.KV = kv
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: client, Interval: 10 * time.Millisecond, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(health.Close)
	return newStore(t, etcd3.Config{Client: client, Health: health, Resource: "configmaps"}), client, health, kv
}

// When etcd answers nothing, what waits ends and what comes fails at once; when it answers again, all is well.
func TestHealthDown(t *testing.T) {
	store, client, health, kv := newWatched(t)
	ctx := t.Context()
	o := storagetest.NewObject("a")
	storagetest.Create(ctx, t, store, o)
	kv.asked.Store(true) // until all wait, else it may be down before the writes begin
	resume := kv.pause()
	defer resume()

	given := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); storage.CodeOf(err) != storage.ErrCodeUnreachable {
			t.Errorf("a read that waits: got %v, want unreachable", err)
		}
	})
	waiting.Go(func() {
		if _, err := store.GetList(ctx, storagetest.Prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}); storage.CodeOf(err) != storage.ErrCodeUnreachable {
			t.Errorf("a list that waits: got %v, want unreachable", err)
		}
	})
	// Whether a write that waits happens is not known before its deadline.
	var writing sync.WaitGroup
	writing.Go(func() {
		c := storagetest.NewObject("c")
		if _, err := store.Create(ctx, c.Key(), c.JSON(), 0); err != nil {
			t.Errorf("a write that waits until etcd is back: got %v", err)
		}
	})
	writing.Go(func() {
		impatient := newStore(t, etcd3.Config{Client: client, Health: health, Resource: "configmaps", RequestTimeout: 500 * time.Millisecond})
		d := storagetest.NewObject("d")
		if _, err := impatient.Create(ctx, d.Key(), d.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeTimeout {
			t.Errorf("a write that waits: got %v, want timeout: it may have happened", err)
		}
		close(given)
	})
	eventually(t, func() bool { return kv.waited.Load() == 4 })
	kv.asked.Store(false)
	waiting.Wait()
	if health.Down() == nil {
		t.Error("etcd counts as up")
	}

	started := time.Now()
	b := storagetest.NewObject("b")
	_, err := store.Create(ctx, b.Key(), b.JSON(), 0)
	if storage.CodeOf(err) != storage.ErrCodeUnreachable {
		t.Errorf("a write that comes: got %v, want unreachable: it did not happen", err)
	}
	_, err = store.Delete(ctx, o.Key(), storage.DeleteOptions{})
	if storage.CodeOf(err) != storage.ErrCodeUnreachable {
		t.Errorf("a deletion that comes: got %v, want unreachable", err)
	}
	if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); storage.CodeOf(err) != storage.ErrCodeUnreachable {
		t.Errorf("a read that comes: got %v, want unreachable", err)
	}
	if waited := time.Since(started); waited > time.Second {
		t.Errorf("requests to an etcd that is known to be down took %s", waited)
	}

	<-given
	resume()
	writing.Wait()
	eventually(t, func() bool { return health.Down() == nil })
	if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

// Why a read ended does not depend on whether etcd is back when that is said.
func TestHealthDownAndUp(t *testing.T) {
	store, _, health, kv := newWatched(t)
	kv.late = make(chan struct{})
	resume := kv.pause()
	defer resume()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_, err := store.Get(t.Context(), storagetest.NewObject("a").Key(), storage.GetOptions{})
		if storage.CodeOf(err) != storage.ErrCodeUnreachable || !strings.Contains(err.Error(), "etcd does not answer") {
			t.Errorf("got %v, want unreachable", err)
		}
	})
	eventually(t, func() bool { return health.Down() != nil })
	resume()
	eventually(t, func() bool { return health.Down() == nil })
	close(kv.late)
	waiting.Wait()
}

// An etcd that heeds no deadline is down too.
func TestHealthHeedless(t *testing.T) {
	store, _, health, kv := newWatched(t)
	kv.heedless.Store(true)
	resume := kv.pause()
	defer resume()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_, _ = store.Get(t.Context(), storagetest.NewObject("a").Key(), storage.GetOptions{}) // when it is back
	})
	eventually(t, func() bool { return health.Down() != nil })
	resume()
	waiting.Wait()
	eventually(t, func() bool { return health.Down() == nil })
}

// An etcd that answers something is not down, however long the others wait.
func TestHealthSlow(t *testing.T) {
	store, _, health, kv := newWatched(t)
	ctx, cancel := context.WithCancel(t.Context())
	resume := kv.pause()
	defer resume()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, err := store.Get(ctx, storagetest.NewObject("a").Key(), storage.GetOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's cancellation", err)
		}
	})
	// Others are answered all the time: conflicts and the like count too.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 500 {
		health.Answered()
		if err := health.Down(); err != nil {
			t.Fatalf("a slow etcd counts as down: %v", err)
		}
		<-tick.C
	}
	cancel()
	waiting.Wait()
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to be")
		}
		<-tick.C
	}
}

// A connection that is refused is not tried again at ever longer intervals: an etcd that is back is found at once.
func TestDialRefusedThenBack(t *testing.T) {
	e, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	_ = reserved.Close()
	client, err := etcd3.Dial(etcd3.DialConfig{Endpoints: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: client, Interval: 20 * time.Millisecond, Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer health.Close()
	store := newStore(t, etcd3.Config{Client: client, Health: health, RequestTimeout: time.Second})
	o := storagetest.NewObject("a")
	if _, err := store.Create(t.Context(), o.Key(), o.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeUnreachable && storage.CodeOf(err) != storage.ErrCodeTimeout {
		t.Errorf("nobody listens: got %v, want unreachable or timeout", err)
	}
	eventually(t, func() bool { return health.Down() != nil || ask(t, store) })

	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("the port is taken: %v", err)
	}
	defer listener.Close()
	go forward(listener, e.Addr().String())
	eventually(t, func() bool {
		_, err := store.Create(t.Context(), o.Key(), o.JSON(), 0)
		return err == nil || storage.CodeOf(err) == storage.ErrCodeKeyExists
	})
}

// ask has the health notice: it returns false always.
func ask(t *testing.T, store *etcd3.Store) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = store.Ping(ctx)
	return false
}

func forward(listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		conn, err := net.Dial("tcp", to)
		if err != nil {
			_ = from.Close()
			continue
		}
		go func() { _, _ = io.Copy(conn, from); _ = conn.Close() }()
		go func() { _, _ = io.Copy(from, conn); _ = from.Close() }()
	}
}

// deniedKV is that of a user who may do nothing outside of a prefix.
type deniedKV struct {
	clientv3.KV
	asked atomic.Int64
}

func (d *deniedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if !strings.HasPrefix(key, etcd3.DefaultPrefix) {
		d.asked.Add(1)
		return nil, rpctypes.ErrPermissionDenied
	}
	return d.KV.Get(ctx, key, opts...)
}

// An etcd that does not let its user ask for the Health's key is up.
func TestHealthDenied(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	client := e.Client()
	kv := &deniedKV{KV: client.KV}
	client.KV = kv
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: client, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(health.Close)
	eventually(t, func() bool { return kv.asked.Load() > 3 || health.Down() != nil })
	if err := health.Down(); err != nil {
		t.Error(err)
	}
	if rv := health.Revision(); rv != 0 {
		t.Errorf("revision %d", rv)
	}
}

// restoredKV answers with revisions as an etcd that is restored from an earlier state, and then again before each answer.
type restoredKV struct {
	clientv3.KV
	restored atomic.Bool
	lost     atomic.Int64 // revisions
}

func (r *restoredKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := r.KV.Get(ctx, key, opts...)
	if err == nil && r.restored.Load() {
		resp.Header.Revision -= r.lost.Add(1)
	}
	return resp, err
}

// What one Store finds of a restored etcd ends the watches of all: that of another, which has seen less, would not tell the
// etcd from the one that it was, once that has come as far again.
func TestRestoredBehindAnother(t *testing.T) {
	for _, by := range []string{"a question", "a watch"} {
		t.Run("its revision was told by "+by, func(t *testing.T) {
			client := etcd3test.New(t)
			kv := &earlierKV{KV: client.KV}
			client.KV = kv
			health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: client, Interval: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(health.Close)
			first, second := newStore(t, etcd3.Config{Client: client, Health: health}), newStore(t, etcd3.Config{Client: client, Health: health})
			row := storagetest.Create(t.Context(), t, first, storagetest.NewObject("a"))
			opts := everything()
			opts.ResourceVersion = storage.FormatResourceVersion(row.ResourceVersion)
			w, err := second.Watch(t.Context(), storagetest.Prefix, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if by == "a watch" {
				opts.ResourceVersion = storage.FormatResourceVersion(row.ResourceVersion - 1)
				told, err := first.Watch(t.Context(), storagetest.Prefix, opts)
				if err != nil {
					t.Fatal(err)
				}
				defer told.Stop()
				if _, err := told.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else if _, err := first.GetCurrentResourceVersion(t.Context()); err != nil {
				t.Fatal(err)
			}
			kv.by.Store(1)
			if _, err := first.GetCurrentResourceVersion(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := w.Next(ctx); storage.CodeOf(err) != storage.ErrCodeExpired {
				t.Errorf("got %v, want expired", err)
			}
			opts.ResourceVersion = storage.FormatResourceVersion(row.ResourceVersion - 1)
			next, err := second.Watch(t.Context(), storagetest.Prefix, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer next.Stop()
			if _, err := second.GetCurrentResourceVersion(t.Context()); err != nil { // of the same history
				t.Fatal(err)
			}
			if events, err := next.Next(t.Context()); err != nil || len(events) != 1 {
				t.Errorf("a watch that began later: %v, %v", events, err)
			}
		})
	}
}

// earlierKV answers with revisions that are earlier than those of its etcd.
type earlierKV struct {
	clientv3.KV
	by atomic.Int64
}

func (e *earlierKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := e.KV.Get(ctx, key, opts...)
	if err == nil {
		resp.Header.Revision -= e.by.Load()
	}
	return resp, err
}

// A watch from a revision that is lost ends, instead of waiting for it to come again.
func TestRestored(t *testing.T) {
	e, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	client := e.Client()
	kv := &restoredKV{KV: client.KV}
	client.KV = kv
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: client, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(health.Close)
	store := newStore(t, etcd3.Config{Client: client, Health: health})
	row := storagetest.Create(t.Context(), t, store, storagetest.NewObject("a"))
	opts := everything()
	opts.ResourceVersion = storage.FormatResourceVersion(row.ResourceVersion)
	w, err := store.Watch(t.Context(), storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	eventually(t, func() bool { return health.Revision() == row.ResourceVersion })
	kv.restored.Store(true)
	if _, err = w.Next(t.Context()); storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("got %v, want expired", err)
	}
	if health.Down() != nil {
		t.Errorf("an etcd that was restored counts as down: %v", health.Down())
	}
	if rv := health.Revision(); rv >= row.ResourceVersion {
		t.Errorf("it is at revision %d, which it was before it was restored", rv)
	}
}
