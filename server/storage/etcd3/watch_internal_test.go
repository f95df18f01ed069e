package etcd3

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir.dev/weir/server/storage"
)

// An event may come without its previous value. It is read; when etcd has compacted it, the
// watcher cannot tell whether it saw the object before, so the watch is over.
func TestWatcherNoPreviousValue(t *testing.T) {
	etcd, err := StartEmbedded(t.Context(), EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	store, err := New(Config{Client: etcd.Client()})
	if err != nil {
		t.Fatal(err)
	}
	const key = "/registry/x/a"
	var last int64
	for i := range 3 {
		resp, err := etcd.Client().Put(t.Context(), key, fmt.Sprintf(`{"n":%d}`, i))
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
	}
	for _, compacted := range []bool{false, true} {
		if compacted {
			if _, err := etcd.Client().Compact(t.Context(), last); err != nil {
				t.Fatal(err)
			}
		}
		for typ, want := range map[mvccpb.Event_EventType]storage.EventType{clientv3.EventTypePut: storage.Modified, clientv3.EventTypeDelete: storage.Deleted} {
			w := &watcher{store: store, ctx: t.Context(), all: true}
			err := w.add(&clientv3.Event{Type: typ, Kv: &mvccpb.KeyValue{
				Key: []byte(key), Value: []byte("{}"), CreateRevision: 1, ModRevision: last,
			}})
			switch {
			case compacted:
				if storage.CodeOf(err) != storage.ErrCodeExpired || len(w.out) != 0 {
					t.Errorf("%v: got %v, %v, want expired", typ, w.out, err)
				}
			case err != nil || len(w.out) != 1 || w.out[0].Type != want || w.out[0].Prev.ResourceVersion != uint64(last-1):
				t.Errorf("%v: got %v, %v, want %s with the value before", typ, w.out, err, want)
			}
		}
	}
}

// What an etcd in this process has is read although it counts as down: nobody need agree on the past.
func TestWatcherNearPreviousWhileDown(t *testing.T) {
	etcd, err := StartEmbedded(t.Context(), EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	health := &Health{}
	health.phase.Store(newPhase(errDown))
	health.history.Store(newHistory())
	store, err := New(Config{Client: etcd.Client(), Health: health})
	if err != nil {
		t.Fatal(err)
	}
	const key = "/registry/x/a"
	var last int64
	for range 2 {
		resp, err := etcd.Client().Put(t.Context(), key, "{}")
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
	}
	for near, want := range map[bool]storage.ErrorCode{true: 0, false: storage.ErrCodeUnreachable} {
		w := &watcher{store: store, ctx: t.Context(), all: true, paced: &paced{near: near}}
		_, err := w.previous(&clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: last + 1}})
		if code := storage.CodeOf(err); code != want || want == 0 && err != nil {
			t.Errorf("near %v: %v", near, err)
		}
	}
}

func TestClassify(t *testing.T) {
	tests := []struct {
		err  error
		want storage.ErrorCode
	}{
		{context.Canceled, 0},
		{context.DeadlineExceeded, storage.ErrCodeTimeout},
		{status.Error(codes.DeadlineExceeded, "x"), storage.ErrCodeTimeout},
		{rpctypes.ErrTimeout, storage.ErrCodeTimeout},
		{rpctypes.ErrTimeoutDueToLeaderFail, storage.ErrCodeTimeout},
		{rpctypes.ErrTimeoutDueToConnectionLost, storage.ErrCodeTimeout},
		{rpctypes.ErrNoLeader, storage.ErrCodeUnreachable},
		{rpctypes.ErrStopped, storage.ErrCodeUnreachable},
		{rpctypes.ErrTooManyRequests, storage.ErrCodeUnreachable},
		{clientv3.ErrNoAvailableEndpoints, storage.ErrCodeUnreachable},
		{status.Error(codes.Unavailable, "connection refused"), storage.ErrCodeUnreachable},
		{status.Error(codes.Canceled, "grpc: the client connection is closing"), storage.ErrCodeUnreachable},
		{rpctypes.ErrNoSpace, storage.ErrCodeNoSpace},
		{rpctypes.ErrRequestTooLarge, storage.ErrCodeTooLarge},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (3 vs. 2)"), storage.ErrCodeTooLarge},
		{rpctypes.ErrCompacted, storage.ErrCodeExpired},
		{rpctypes.ErrFutureRev, storage.ErrCodeResourceVersionTooLarge},
		{rpctypes.ErrLeaseNotFound, 0},
		{errors.New("x"), 0},
	}
	for _, tc := range tests {
		t.Run(tc.err.Error(), func(t *testing.T) {
			if got := classify(fmt.Errorf("wrapped: %w", tc.err)); got != tc.want {
				t.Errorf("got code %d, want %d", got, tc.want)
			}
			// Over gRPC the same error arrives as a status, which the client turns back.
			var etcd rpctypes.EtcdError
			if errors.As(tc.err, &etcd) {
				if got := classify(rpctypes.Error(status.Error(etcd.Code(), etcd.Error()))); got != tc.want {
					t.Errorf("from a status: got code %d, want %d", got, tc.want)
				}
			}
		})
	}
}
