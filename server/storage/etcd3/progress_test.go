package etcd3_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// leaderless counts the streams of a client, and breaks them as an etcd does that has lost its leader.
type leaderless struct {
	open atomic.Int64

	mu     sync.Mutex
	cancel []func() // guarded by mu
}

// breakAll ends the streams that there are.
func (l *leaderless) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cancel := range l.cancel {
		cancel()
	}
	l.cancel = nil
}

func (l *leaderless) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	l.open.Add(1)
	context.AfterFunc(ctx, func() { l.open.Add(-1) })
	inner, cancel := context.WithCancel(ctx)
	stream, err := streamer(inner, desc, conn, method, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = append(l.cancel, cancel)
	return &leaderlessStream{stream, ctx, inner}, nil
}

type leaderlessStream struct {
	grpc.ClientStream
	ctx, inner context.Context //nolint:containedctx // as of the stream
}

func (s *leaderlessStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s.inner.Err() != nil && s.ctx.Err() == nil {
		return rpctypes.ErrGRPCNoLeader
	}
	return err
}

// A watch that etcd has ended, and whose owner has not noticed, is asked for progress like others. No stream stays behind.
func TestProgressOfEndedWatch(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprintf("bare %v", bare), func(t *testing.T) { testProgressOfEndedWatch(t, bare) })
	}
}

func testProgressOfEndedWatch(t *testing.T, bare bool) {
	t.Helper()
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	streams := &leaderless{}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr().String()},
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(streams.intercept)}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := newStore(t, etcd3.Config{Client: client})
	row := storagetest.Create(t.Context(), t, store, storagetest.NewObject("a"))
	opts := everything()
	opts.ResourceVersion, opts.Progress, opts.Bare = storage.FormatResourceVersion(row.ResourceVersion-1), true, bare
	w, err := store.Watch(t.Context(), storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if events, err := w.Next(t.Context()); err != nil || len(events) == 0 {
		t.Fatalf("got %v, %v", events, err)
	}
	// It is a watch that is told of progress.
	if _, err := client.Put(t.Context(), "/elsewhere", "x"); err != nil {
		t.Fatal(err)
	}
	if err := store.RequestWatchProgress(t.Context()); err != nil {
		t.Fatal(err)
	}
	if events, err := w.Next(t.Context()); err != nil || events[0].Type != storage.Bookmark {
		t.Fatalf("got %v, %v, want a bookmark", events, err)
	}
	if n := streams.open.Load(); n != 1 {
		t.Errorf("%d streams, want 1", n)
	}

	streams.breakAll()
	eventually(t, func() bool { return streams.open.Load() == 0 })
	for range 3 {
		_ = store.RequestWatchProgress(t.Context()) // whether that is an error does not matter
	}
	w.Stop()
	eventually(t, func() bool { return streams.open.Load() == 0 })
	_ = store.RequestWatchProgress(t.Context())
	if n := streams.open.Load(); n != 0 {
		t.Errorf("%d streams are open of no watch", n)
	}
}

// An embedded etcd ends although watches that are told of progress are still open.
func TestCloseUnderProgress(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	store := newStore(t, etcd3.Config{Client: e.Client()})
	row := storagetest.Create(t.Context(), t, store, storagetest.NewObject("a"))
	opts := everything()
	opts.ResourceVersion, opts.Progress = storage.FormatResourceVersion(row.ResourceVersion), true
	w, err := store.Watch(t.Context(), storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(t.Context()); err == nil {
		t.Error("the watch of an etcd that is closed goes on")
	}
	w.Stop()
}
