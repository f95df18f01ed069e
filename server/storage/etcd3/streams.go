package etcd3

import (
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/etcdserver/errors"
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
	client.Watcher = clientv3.NewWatchFromWatchClient(adapter.WatchServerToWatchClient(s), client)
	return client, s
}

// Watch implements etcdserverpb.WatchServer.
func (s *streams) Watch(stream etcdserverpb.Watch_WatchServer) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errors.ErrStopped
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
