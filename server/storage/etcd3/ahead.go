package etcd3

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// aheadBytes is how much watches whose streams are closed keep together of what these have brought. To go on behind
	// it, etcd reads all of its history from there to now, and does nothing else meanwhile, for a thousand revisions at
	// a time: what is thrown away of those is read again, and for who reads slowly so is each MiB.
	aheadBytes = 32 << 20
	// keepFor is how long it is kept while nobody reads.
	keepFor = 15 * time.Second
	// eventOverhead is about what an event takes beside its bytes.
	eventOverhead = 256
)

// ahead is what is kept by all watches of an etcd. The zero value is empty.
type ahead struct {
	mu   sync.Mutex
	used int64 // guarded by mu
}

// take notes n more bytes for who holds some, unless it would hold more than is left for others: one alone has half.
func (a *ahead) take(held, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if held+n > aheadBytes-a.used-n {
		return false
	}
	a.used += n
	return true
}

func (a *ahead) give(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= n
}

// kept is an answer that is kept, of so many bytes; from is the revision to read it again from.
type kept struct {
	answer     clientv3.WatchResponse
	from, size int64
}

// keep keeps events, some revisions at a time, and reports whether there is room for all.
func (p *paced) keep(header *etcdserverpb.ResponseHeader, events []*mvccpb.Event) bool {
	for len(events) > 0 {
		n, size := piece(events)
		size += int64(n) * eventOverhead
		if !p.ahead.take(p.held, size) {
			return false
		}
		// Cloned, or the others of the batch would be kept too.
		p.kept = append(p.kept, kept{clientv3.WatchResponse{Header: header, Events: slices.Clone(events[:n])}, p.next, size})
		p.held += size
		p.next = events[n-1].Kv.ModRevision + 1
		events = events[n:]
	}
	return true
}

// drop gives up what is kept.
func (p *paced) drop() {
	if len(p.kept) > 0 {
		p.next = p.kept[0].from
	}
	p.ahead.give(p.held)
	p.kept, p.held = nil, 0
}

// readAhead keeps what else comes by a stream that is about to be closed, which end closes: until there is no more room, or
// somebody reads, for parkAfter at most. partial are the first events of a revision.
func (p *paced) readAhead(stream etcdserverpb.Watch_WatchClient, end context.CancelFunc, partial []*mvccpb.Event) {
	over, ended := make(chan struct{}), make(chan struct{})
	defer func() { close(over); <-ended }()
	go func() {
		defer close(ended)
		timer := time.NewTimer(parkAfter)
		defer timer.Stop()
		for !p.reading.Load() {
			select {
			case <-p.wake:
				continue
			case <-timer.C:
			case <-over:
			}
			break
		}
		end()
	}()
	for !p.reading.Load() {
		resp, err := stream.Recv()
		if err != nil || resp.Canceled {
			return // the next stream says why
		}
		var events []*mvccpb.Event
		if events, partial = whole(partial, resp.Events, resp.Fragment); !p.keep(resp.Header, events) {
			return
		}
	}
}

// giveKept offers what is kept until all is taken, or nobody has read for a while.
func (p *paced) giveKept(ctx context.Context) {
	for len(p.kept) > 0 {
		first := p.kept[0]
		timer := time.NewTimer(keepFor)
		select {
		case p.out <- first.answer:
			p.kept[0] = kept{}
			p.kept = p.kept[1:]
			p.held -= first.size
			p.ahead.give(first.size)
		case <-timer.C:
			if !p.reading.Load() {
				p.drop()
			}
		case <-ctx.Done():
			p.drop()
		}
		timer.Stop()
	}
	p.kept = nil
}
