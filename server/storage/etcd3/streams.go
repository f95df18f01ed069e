package etcd3

import (
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
)

// streams are the watch streams that are served in process. etcd's gRPC server ends those of others before the
// database is closed; these have nobody else to wait for them, and one that reads a closed database
// ends the process.
type streams struct {
	etcdserverpb.WatchServer

	mu    sync.Mutex
	ended bool           // guarded by mu
	open  sync.WaitGroup // Add is guarded by mu
}

// newInProcessClient returns a client that calls the server without a socket, and its watch streams.
func newInProcessClient(server *etcdserver.EtcdServer) (*clientv3.Client, *streams) {
	s := &streams{WatchServer: v3rpc.NewWatchServer(server)}
	client := v3client.New(server)
	client.Watcher = &inProcessWatcher{Watcher: s.watcher(client), client: client, streams: s, owned: map[*ownedWatcher]struct{}{}}
	return client, s
}

// watcher returns a client of the streams.
func (s *streams) watcher(client *clientv3.Client) clientv3.Watcher {
	return clientv3.NewWatchFromWatchClient(s.client(), client)
}

// client returns the calls of the streams.
func (s *streams) client() etcdserverpb.WatchClient { return adapter.WatchServerToWatchClient(s) }

// inProcessWatcher is the Watcher of the client in process. Its Close closes also those that own has returned, as that of a
// client elsewhere does by closing its connection.
type inProcessWatcher struct {
	clientv3.Watcher
	client  *clientv3.Client
	streams *streams

	mu    sync.Mutex
	owned map[*ownedWatcher]struct{} // guarded by mu; nil: closed
}

// ownedWatcher is a Watcher that shares no stream with others.
type ownedWatcher struct {
	clientv3.Watcher
	of *inProcessWatcher
}

// own returns one.
func (w *inProcessWatcher) own() clientv3.Watcher {
	own := &ownedWatcher{w.streams.watcher(w.client), w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owned == nil {
		_ = own.Watcher.Close()
		return own
	}
	w.owned[own] = struct{}{}
	return own
}

// Close implements clientv3.Watcher.
func (o *ownedWatcher) Close() error {
	o.of.mu.Lock()
	delete(o.of.owned, o)
	o.of.mu.Unlock()
	return o.Watcher.Close()
}

// Close implements clientv3.Watcher.
func (w *inProcessWatcher) Close() error {
	w.mu.Lock()
	owned := w.owned
	w.owned = nil
	w.mu.Unlock()
	errs := []error{w.Watcher.Close()}
	for own := range owned {
		errs = append(errs, own.Watcher.Close())
	}
	return errors.Join(errs...)
}

// Watch implements etcdserverpb.WatchServer.
func (s *streams) Watch(stream etcdserverpb.Watch_WatchServer) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return etcderrors.ErrStopped
	}
	s.open.Add(1)
	s.mu.Unlock()
	defer s.open.Done()
	return s.WatchServer.Watch(stream)
}

// wait refuses new streams and waits for those that are open, whose client must have been closed.
func (s *streams) wait() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.open.Wait()
}
