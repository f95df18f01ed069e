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
	// waited counts the requests that have waited, questions of the Health how many of those there were.
	waited, questions atomic.Int64
	// meanwhile is called while a question of the Health waits; nil: nothing.
	meanwhile func()
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

func (p *pausedKV) wait(ctx context.Context, n *atomic.Int64) error {
	if err := ctx.Err(); err != nil {
		return err // it is not sent
	}
	if wait := p.paused.Load(); wait != nil {
		n.Add(1)
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
	n, late := &p.waited, p.late
	if key == "\x00" {
		n, late = &p.questions, nil
		if p.meanwhile != nil {
			p.meanwhile()
		}
	}
	if err := p.wait(ctx, n); err != nil {
		if late != nil {
			<-late
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
	if err := t.kv.wait(t.ctx, &t.kv.waited); err != nil {
		return nil, err
	}
	return t.Txn.Commit()
}

// watched is a store whose etcd can be paused, and a Health that looks when its clock says so: one that looks by itself finds an
// etcd down that is slow because the machine is busy.
type watched struct {
	store  *etcd3.Store
	client *clientv3.Client
	health *etcd3.Health
	kv     *pausedKV
	clock  *lookClock
	// waiting is what goes on beside the test, which waits for it in the end.
	waiting sync.WaitGroup
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{clock: newLookClock()}
	w.client = start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true}).Client()
	w.kv = &pausedKV{KV: w.client.KV}
	w.client.KV = w.kv
	var err error
	w.health, err = etcd3.StartHealth(etcd3.HealthConfig{Client: w.client, Clock: w.clock, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.health.Close)
	t.Cleanup(w.waiting.Wait)
	w.store = newStore(t, etcd3.Config{Client: w.client, Health: w.health, Resource: "configmaps"})
	waitFor(t, func() bool { return w.clock.looks.Load() > 0 })
	return w
}

// lookUntil has the Health look until it finds the etcd down, or up.
func (w *watched) lookUntil(t *testing.T, down bool) {
	t.Helper()
	for range 100 {
		if (w.health.Down() != nil) == down {
			return
		}
		w.clock.look(t)
	}
	t.Fatalf("down: %v, want it to be so: %t", w.health.Down(), down)
}

// When etcd answers nothing, what waits ends and what comes fails at once; when it answers again, all is well.
func TestHealthDown(t *testing.T) {
	w := newWatched(t)
	store, kv, ctx := w.store, w.kv, t.Context()
	o := storagetest.NewObject("a")
	storagetest.Create(ctx, t, store, o)
	resume := kv.pause()
	defer resume()

	given := make(chan struct{})
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	reading.Go(func() {
		if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); storage.CodeOf(err) != storage.ErrCodeUnreachable {
			t.Errorf("a read that waits: got %v, want unreachable", err)
		}
	})
	reading.Go(func() {
		if _, err := store.GetList(ctx, storagetest.Prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}); storage.CodeOf(err) != storage.ErrCodeUnreachable {
			t.Errorf("a list that waits: got %v, want unreachable", err)
		}
	})
	// Whether a write that waits happens is not known before its deadline.
	w.waiting.Go(func() {
		c := storagetest.NewObject("c")
		if _, err := store.Create(ctx, c.Key(), c.JSON(), 0); err != nil {
			t.Errorf("a write that waits until etcd is back: got %v", err)
		}
	})
	w.waiting.Go(func() {
		defer close(given)
		impatient := newStore(t, etcd3.Config{Client: w.client, Health: w.health, Resource: "configmaps", RequestTimeout: 500 * time.Millisecond})
		d := storagetest.NewObject("d")
		if _, err := impatient.Create(ctx, d.Key(), d.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeTimeout {
			t.Errorf("a write that waits: got %v, want timeout: it may have happened", err)
		}
	})
	eventually(t, func() bool { return kv.waited.Load() == 4 })
	w.lookUntil(t, true)
	reading.Wait()

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
	if n := kv.waited.Load(); n != 4 {
		t.Errorf("%d requests were sent to an etcd that is known to be down", n-4)
	}

	<-given
	resume()
	w.waiting.Wait()
	w.lookUntil(t, false)
	if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

// Why a read ended does not depend on whether etcd is back when that is said.
func TestHealthDownAndUp(t *testing.T) {
	w := newWatched(t)
	w.kv.late = make(chan struct{})
	goOn := sync.OnceFunc(func() { close(w.kv.late) })
	defer goOn()
	resume := w.kv.pause()
	defer resume()
	w.waiting.Go(func() {
		_, err := w.store.Get(t.Context(), storagetest.NewObject("a").Key(), storage.GetOptions{})
		if storage.CodeOf(err) != storage.ErrCodeUnreachable || !strings.Contains(err.Error(), "etcd does not answer") {
			t.Errorf("got %v, want unreachable", err)
		}
	})
	eventually(t, func() bool { return w.kv.waited.Load() == 1 })
	w.lookUntil(t, true)
	resume()
	w.lookUntil(t, false)
	goOn()
	w.waiting.Wait()
}

// An etcd that heeds no deadline is down too.
func TestHealthHeedless(t *testing.T) {
	w := newWatched(t)
	w.kv.heedless.Store(true)
	resume := w.kv.pause()
	defer resume()
	w.waiting.Go(func() {
		_, _ = w.store.Get(t.Context(), storagetest.NewObject("a").Key(), storage.GetOptions{}) // when it is back
	})
	eventually(t, func() bool { return w.kv.waited.Load() == 1 })
	w.clock.Step(etcd3.DefaultHealthInterval) // it asks, and is not answered
	eventually(t, func() bool { return w.kv.questions.Load() == 1 && w.clock.HasWaiters() })
	w.clock.Step(etcd3.DefaultHealthInterval)
	eventually(t, func() bool { return w.health.Down() != nil })
	resume()
	w.waiting.Wait()
	waitFor(t, func() bool { return w.clock.looks.Load() > 1 })
	w.lookUntil(t, false)
}

// An etcd that answers something is not down, however long the others wait.
func TestHealthSlow(t *testing.T) {
	w := newWatched(t)
	// Others are answered all the time: conflicts and the like count too.
	w.kv.meanwhile = w.health.Answered
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resume := w.kv.pause()
	defer resume()
	w.waiting.Go(func() {
		if _, err := w.store.Get(ctx, storagetest.NewObject("a").Key(), storage.GetOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the caller's cancellation", err)
		}
	})
	eventually(t, func() bool { return w.kv.waited.Load() == 1 })
	for i := range 8 {
		if i%2 == 0 {
			w.health.Answered() // so that nothing need be asked
		}
		w.clock.look(t)
		if err := w.health.Down(); err != nil {
			t.Fatalf("a slow etcd counts as down: %v", err)
		}
	}
	if n := w.kv.questions.Load(); n != 4 {
		t.Errorf("it was asked %d times, want 4", n)
	}
	cancel()
	w.waiting.Wait()
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
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
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	address := socketFor(t)
	client := dial(t, etcd3.DialConfig{Endpoints: []string{address}})
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: client, Interval: 20 * time.Millisecond, Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(health.Close)
	store := newStore(t, etcd3.Config{Client: client, Health: health, RequestTimeout: time.Second})
	o := storagetest.NewObject("a")
	if _, err := store.Create(t.Context(), o.Key(), o.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeUnreachable && storage.CodeOf(err) != storage.ErrCodeTimeout {
		t.Errorf("nobody listens: got %v, want unreachable or timeout", err)
	}
	eventually(t, func() bool { return health.Down() != nil || ask(t, store) })

	listener, err := net.Listen("unix", strings.TrimPrefix(address, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
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
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
	client := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true}).Client()
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
