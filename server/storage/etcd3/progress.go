package etcd3

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc/metadata"
)

// progressWatches are the watches that asked for progress, each on an etcd stream of
// its own.
//
// On a shared stream the answer to a request reaches every watch of the stream, also
// one that was created after the request was handled and whose own events are still to
// come: it would be told that it has seen everything up to a revision of which it has
// not seen all. Alone on its stream, a watch is created before the first request is
// sent, and etcd does not answer one while the watch has events to catch up with.
type progressWatches struct {
	mu   sync.Mutex
	last uint64                // guarded by mu
	open map[*watcher]struct{} // guarded by mu
}

// stream returns metadata that no other watch has.
func (p *progressWatches) stream(of metadata.MD) metadata.MD {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	own := of.Copy()
	own.Set("weir-watch", strconv.FormatUint(p.last, 10))
	return own
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

// RequestWatchProgress implements storage.Interface.
func (s *Store) RequestWatchProgress(ctx context.Context) error {
	for _, w := range s.progress.list() {
		if w.ctx.Err() != nil {
			continue
		}
		if err := s.client.Watcher.RequestProgress(s.watchContext(ctx, w.stream)); err != nil {
			return s.fail(ctx, "", err)
		}
	}
	return nil
}
