package etcd3_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// fullKV is the KV of an etcd without space.
type fullKV struct {
	clientv3.KV
	// applies says that it becomes full by the next transaction, which it does; otherwise it is full.
	applies bool
	// deaf says that it answers no reads behind a transaction, hangs that it answers none at all.
	deaf, hangs bool
	// before the transaction another does this.
	before func()
	wrote  bool
	// hung counts the reads of rows that hang.
	hung atomic.Int64
}

func (f *fullKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if f.hangs {
		if key != "\x00" {
			f.hung.Add(1)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.deaf && f.wrote {
		return nil, rpctypes.ErrNoLeader
	}
	return f.KV.Get(ctx, key, opts...)
}

func (f *fullKV) Txn(ctx context.Context) clientv3.Txn { return &fullTxn{f.KV.Txn(ctx), f} }

type fullTxn struct {
	clientv3.Txn
	kv *fullKV
}

func (t *fullTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.Txn = t.Txn.If(cs...); return t }
func (t *fullTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(ops...); return t }
func (t *fullTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }
func (t *fullTxn) Commit() (*clientv3.TxnResponse, error) {
	if before := t.kv.before; before != nil {
		t.kv.before = nil
		before()
	}
	t.kv.wrote = true
	if t.kv.applies {
		t.kv.applies = false
		if _, err := t.Txn.Commit(); err != nil {
			return nil, err
		}
	}
	return nil, rpctypes.ErrNoSpace
}

// An etcd says of the write by which it becomes full that it has no space for it, and has done it.
func TestOutOfSpace(t *testing.T) {
	const create, update = "create", "update"
	put := func(ctx context.Context, s *etcd3.Store, o storagetest.Object) error {
		_, err := s.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{IgnoreNotFound: true}, func(storage.Row) ([]byte, uint64, error) {
			return o.With("k", "theirs").JSON(), 0, nil
		})
		return err
	}
	remove := func(ctx context.Context, s *etcd3.Store, o storagetest.Object) error {
		_, err := s.Delete(ctx, o.Key(), storage.DeleteOptions{})
		return err
	}
	for i, tc := range []struct {
		name, verb    string
		applies, deaf bool
		embedded      bool // the store knows that it is
		// other is done by another before the write.
		other func(ctx context.Context, s *etcd3.Store, o storagetest.Object) error
		code  storage.ErrorCode // 0: none
	}{
		{name: "a create that is done", verb: create, applies: true},
		{name: "a create that is refused", verb: create, code: storage.ErrCodeNoSpace},
		{name: "a create of what is there", verb: create, other: put, code: storage.ErrCodeKeyExists},
		{name: "a create of which nothing is known", verb: create, applies: true, deaf: true, code: storage.ErrCodeTimeout},
		{name: "a create that an embedded one refuses, and nothing is known", verb: create, deaf: true, embedded: true, code: storage.ErrCodeNotReady},
		{name: "an update that is done", verb: update, applies: true},
		{name: "an update that is refused", verb: update, code: storage.ErrCodeNoSpace},
		{name: "an update of what is another by now", verb: update, other: put, code: storage.ErrCodeNoSpace},
		{name: "an update of what is gone", verb: update, other: remove, code: storage.ErrCodeKeyNotFound},
		{name: "an update of which nothing is known", verb: update, applies: true, deaf: true, code: storage.ErrCodeTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := start(t, etcd3.EmbeddedConfig{DataDir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoFsync: true})
			plain := newStore(t, etcd3.Config{Client: e.Client()})
			o := storagetest.NewObject(fmt.Sprint("o", i))
			if tc.verb == update {
				if _, err := plain.Create(t.Context(), o.Key(), o.JSON(), 0); err != nil {
					t.Fatal(err)
				}
			}
			full := &fullKV{KV: e.Client().KV, applies: tc.applies, deaf: tc.deaf}
			if tc.other != nil {
				full.before = func() {
					if err := tc.other(t.Context(), plain, o); err != nil {
						t.Error(err)
					}
				}
			}
			client := clientv3.NewCtxClient(t.Context())
			client.KV = full
			config := etcd3.Config{Client: client}
			if tc.embedded {
				health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: e.Client(), Embedded: e})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(health.Close)
				config.Health = health
			}
			store := newStore(t, config)
			ours := o.With("k", "ours")
			var row storage.Row
			var err error
			if tc.verb == create {
				row, err = store.Create(t.Context(), o.Key(), ours.JSON(), 0)
			} else {
				row, err = store.GuaranteedUpdate(t.Context(), o.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
					return ours.JSON(), 0, nil
				})
			}
			if storage.CodeOf(err) != tc.code || (err == nil) != (tc.code == 0) {
				t.Fatalf("got %v, want code %v", err, tc.code)
			}
			now, failed := plain.Get(t.Context(), o.Key(), storage.GetOptions{IgnoreNotFound: true})
			if failed != nil {
				t.Fatal(failed)
			}
			if err == nil && (row.ResourceVersion != now.ResourceVersion || row.Value.String() != now.Value.String()) {
				t.Errorf("got %d %s, etcd has %d %s", row.ResourceVersion, row.Value, now.ResourceVersion, now.Value)
			}
			if done := strings.Contains(now.Value.String(), "ours"); done != tc.applies {
				t.Errorf("it is done: %t", done)
			}
		})
	}
}

// While an embedded etcd is being defragmented, which answers no reads, writes are refused at once; and that it refuses them is
// no answer: it is down for who waits for one.
func TestOutOfSpaceBlocked(t *testing.T) {
	s := newSmall(t)
	_ = s.fill(func(i int) string { return fmt.Sprint("o", i%3) })
	goOn := s.log.hold("embedded etcd is being defragmented")
	defer goOn()
	waitFor(t, s.clock.HasWaiters)
	s.clock.Step(10 * time.Second)
	blocked := func() bool {
		var full *etcd3.FullError
		return errors.As(s.etcd.Full(), &full) && full.Blocked
	}
	waitFor(t, blocked)

	client := clientv3.NewCtxClient(t.Context())
	kv := &fullKV{KV: s.etcd.Client().KV, hangs: true}
	client.KV = kv
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: client, Embedded: s.etcd, Interval: 10 * time.Millisecond, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer health.Close()
	store := newStore(t, etcd3.Config{Client: client, Health: health})
	o := storagetest.NewObject("a")
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	reading.Go(func() {
		if _, err := store.Get(t.Context(), o.Key(), storage.GetOptions{}); storage.CodeOf(err) != storage.ErrCodeUnreachable {
			t.Errorf("a read: %v", err)
		}
	})
	for end := time.Now().Add(time.Minute); health.Down() == nil && time.Now().Before(end); {
		if _, err := store.Create(t.Context(), o.Key(), o.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeNotReady && health.Down() == nil {
			t.Fatalf("a write: %v", err)
		}
	}
	if health.Down() == nil {
		t.Error("an etcd that answers no reads is not down")
	}
	reading.Wait()
	if n := kv.hung.Load(); n != 1 {
		t.Errorf("%d reads, want that of no write", n)
	}
	if !blocked() {
		t.Error("it is not defragmented any more")
	}
}
