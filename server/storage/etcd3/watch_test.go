package etcd3_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
	"weir.dev/weir/server/storage/value"
)

// Of a revision with an event that cannot be told, none is: whoever has seen one goes on behind the revision.
func TestWatchWholeRevisions(t *testing.T) {
	names := []string{"a", "b", "c"}
	values := func(lease clientv3.LeaseID) (puts []clientv3.Op) {
		for _, name := range names {
			o := storagetest.NewObject(name)
			text := string(o.JSON())
			if name == "b" {
				text = "cannot be read"
			}
			puts = append(puts, clientv3.OpPut(o.Key(), text, clientv3.WithLease(lease)))
		}
		return puts
	}
	tests := []struct {
		name          string
		bare, expired bool
	}{
		{name: "expired", expired: true},
		{name: "written"},
		{name: "written, bare", bare: true},
	}
	eachClient(t, func(t *testing.T, client *clientv3.Client) {
		for _, tc := range tests {
			t.Run(tc.name, func(t *testing.T) {
				ctx := t.Context()
				store := newStore(t, etcd3.Config{Client: client})
				lease, err := client.Grant(ctx, 600)
				if err != nil {
					t.Fatal(err)
				}
				if tc.expired {
					if _, err := client.Txn(ctx).Then(values(lease.ID)...).Commit(); err != nil {
						t.Fatal(err)
					}
				}
				first := storagetest.Create(ctx, t, store, storagetest.NewObject("first"))
				if tc.expired {
					_, err = client.Revoke(ctx, lease.ID)
				} else {
					_, err = client.Txn(ctx).Then(values(lease.ID)...).Commit()
				}
				if err != nil {
					t.Fatal(err)
				}
				storagetest.Create(ctx, t, store, storagetest.NewObject("last"))
				opts := everything()
				opts.ResourceVersion, opts.Progress, opts.Bare = storage.FormatResourceVersion(first.ResourceVersion-1), true, tc.bare
				w, err := store.Watch(ctx, storagetest.Prefix, opts)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				told := 0
				for err == nil {
					var events []storage.Event
					events, err = w.Next(ctx)
					for _, e := range events {
						if told++; e.Row.ResourceVersion != first.ResourceVersion {
							t.Errorf("told: %s %s at %d", e.Type, e.Row.Key, e.Row.ResourceVersion)
						}
					}
				}
				if told != 1 || storage.CodeOf(err) != storage.ErrCodeCorruptObj {
					t.Errorf("%d events were told before %v, want one before what cannot be read", told, err)
				}
				if _, err := client.Delete(ctx, storagetest.Prefix, clientv3.WithPrefix()); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// unreadable is a Transformer that reads nothing, and says when it should have.
type unreadable struct {
	value.Transformer
	asked func()
}

func (u unreadable) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	u.asked()
	return nil, false, errors.New("unreadable")
}

// The error about what has been taken from etcd is told although the one who waits has given up meanwhile: what has been
// taken does not come again.
func TestWatchGivenUpWithError(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	from := history(t, e.Client(), 2, 1, 10)
	for name, rv := range map[string]string{"events": storage.FormatResourceVersion(from), "initial": ""} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			store := newStore(t, etcd3.Config{Client: e.Client(), Transformer: unreadable{value.Identity{}, cancel}})
			opts := everything()
			opts.ResourceVersion = rv
			w, err := store.Watch(t.Context(), storagetest.Prefix, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			again, done := context.WithTimeout(t.Context(), time.Minute)
			defer done()
			for _, ctx := range []context.Context{ctx, again} {
				if events, err := w.Next(ctx); storage.CodeOf(err) != storage.ErrCodeCorruptObj {
					t.Errorf("%d events, %v, want that a row cannot be read", len(events), err)
				}
			}
		})
	}
}

// A Next whose last initial rows are there does not wait for etcd's watch for longer than it may.
func TestWatchInitialWithoutStreams(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr().String()}, DialOptions: []grpc.DialOption{
		grpc.WithChainStreamInterceptor(func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := newStore(t, etcd3.Config{Client: client})
	storagetest.Create(t.Context(), t, store, storagetest.NewObject("a"))
	w, err := store.Watch(t.Context(), storagetest.Prefix, everything())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	tooLong := time.AfterFunc(time.Minute, w.Stop)
	next := func() ([]storage.Event, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return w.Next(ctx)
	}
	events, err := next()
	for errors.Is(err, context.DeadlineExceeded) { // a slow machine, on which the row is not there yet
		events, err = next()
	}
	if err != nil || len(events) != 1 || events[0].Type != storage.Added {
		t.Errorf("got %v, %v, want the row", events, err)
	}
	if events, err := next(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v, want that the time is over", events, err)
	}
	if !tooLong.Stop() {
		t.Error("it waited for etcd's watch")
	}
}
