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

// Between the receipt of an event and its previous value, etcd may have compacted it.
// The watcher cannot tell whether it saw the object before, so the watch is over.
func TestWatcherNoPreviousValue(t *testing.T) {
	store, err := New(Config{Client: clientv3.NewCtxClient(t.Context())})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []mvccpb.Event_EventType{clientv3.EventTypePut, clientv3.EventTypeDelete} {
		w := &watcher{store: store, ctx: t.Context(), all: true}
		err := w.add(&clientv3.Event{Type: typ, Kv: &mvccpb.KeyValue{
			Key: []byte("/registry/x/a"), Value: []byte("{}"), CreateRevision: 1, ModRevision: 5,
		}})
		if storage.CodeOf(err) != storage.ErrCodeExpired || len(w.out) != 0 {
			t.Errorf("%v: got %v, %v, want expired", typ, w.out, err)
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
