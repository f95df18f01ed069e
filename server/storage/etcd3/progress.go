package etcd3

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// progressWatches are the watches that asked for progress, each on an etcd stream of
// its own.
//
// On a shared stream the answer to a request reaches every watch of the stream, also
// one that was created after the request was handled and whose own events are still to
// come: it would be told that it has seen everything up to a revision of which it has
// not seen all. Alone on its stream, a watch is created before the first request is
// sent, and etcd does not answer one while the watch has events to catch up with.
//
// The stream is that of paced or of a clientv3.Watcher which the watch has for itself and closes at its end. On one that is shared, a request
// about a watch whose stream etcd has ended would open another stream, which ends with its last watch: it has none.
type progressWatches struct {
	mu   sync.Mutex
	open map[*watcher]struct{} // guarded by mu
}

func (p *progressWatches) add(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*watcher]struct{}{}
	}
	p.open[w] = struct{}{}
}

func (p *progressWatches) remove(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, w)
}

func (p *progressWatches) list() []*watcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	watches := make([]*watcher, 0, len(p.open))
	for w := range p.open {
		watches = append(watches, w)
	}
	return watches
}

// ownWatcher returns a clientv3.Watcher of client that shares no stream with others.
func ownWatcher(client *clientv3.Client) clientv3.Watcher {
	if in, ok := client.Watcher.(*inProcessWatcher); ok {
		return in.own()
	}
	return clientv3.NewWatcher(client)
}

// RequestWatchProgress implements storage.Interface.
func (s *Store) RequestWatchProgress(ctx context.Context) error {
	for _, w := range s.progress.list() {
		if w.ctx.Err() != nil {
			continue
		}
		if w.paced != nil {
			w.paced.requestProgress()
			continue
		}
		if err := w.etcd.RequestProgress(s.watchContext(ctx)); err != nil && w.ctx.Err() == nil {
			return s.fail(ctx, "", err)
		}
	}
	return nil
}
