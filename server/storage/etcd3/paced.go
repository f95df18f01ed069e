package etcd3

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// parkAfter is how long an answer waits for a reader before its stream is closed. etcd reads a thousand more revisions
	// each tenth of a second, and keeps 128 times as many for a stream that takes nothing: in process, in this memory.
	parkAfter = 300 * time.Millisecond
	// pieceBytes is about how much is given at once.
	pieceBytes = 1 << 20
	// reopenAfter is the pause before a stream that has broken is opened again.
	reopenAfter = 50 * time.Millisecond
)

// errParked ends a stream that nobody reads.
var errParked = errors.New("nobody reads")

// paced reads a watch of etcd no faster than its answers are taken: the watch has a stream for itself, of which one answer
// is read ahead, in fragments of about the size of a request. etcd's client would go on and keep all. A stream whose answer
// is not taken for a while is closed, and opened again when somebody reads, behind what is kept of it.
type paced struct {
	client etcdserverpb.WatchClient
	// key and end are the range; end is "" for one key.
	key, end string
	progress bool
	// near: the server is in this process and has its batches in memory. What it would add to them, the values before
	// and fragments, is left to the reader.
	near bool
	// next is the revision up to which, exclusively, answers have been taken or are kept.
	next int64
	// ahead bounds what is kept of streams that are closed, and of other watches; held are the bytes of kept. Only the goroutine
	// that reads the streams uses kept and held.
	ahead *ahead
	kept  []kept
	held  int64
	// untold is of an answer that there is nothing up to a revision, which nobody has taken; nil: there is none. A stream that begins
	// behind that revision would not say it again before there is another. Only the goroutine that reads the streams uses it.
	untold *etcdserverpb.ResponseHeader
	// out has answers about whole revisions. It is closed at the end.
	out chan clientv3.WatchResponse
	// err is why it is over, nil after a clean end. It is read after out is closed.
	err error
	// reading: somebody waits for an answer, or is about to.
	reading atomic.Bool
	// wake has something when reading has become true.
	wake chan struct{}
	// created is closed when etcd has the watch for the first time, or there will be none.
	created   chan struct{}
	creations sync.Once
	// asked has something when etcd is to be asked for progress.
	asked chan struct{}
	// current asks for etcd's revision. past: etcd has been at the revision before next. Only the goroutine that reads the streams
	// uses past.
	current func(context.Context) (uint64, error)
	past    bool
}

// newPaced returns a watch by the calls behind a client's Watcher, nil where they are not known.
func newPaced(client *clientv3.Client, ahead *ahead) *paced {
	if in, ok := client.Watcher.(*inProcessWatcher); ok {
		return &paced{client: in.streams.client(), ahead: ahead, near: true}
	}
	if conn := client.ActiveConnection(); conn != nil {
		return &paced{client: etcdserverpb.NewWatchClient(conn), ahead: ahead}
	}
	return nil
}

// start begins. It is over when ctx is done or the client closed.
func (p *paced) start(ctx, closed context.Context) {
	p.out = make(chan clientv3.WatchResponse)
	p.wake = make(chan struct{}, 1)
	p.asked = make(chan struct{}, 1)
	p.created = make(chan struct{})
	// gRPC would tell etcd of a deadline, and of two clocks one is first: the end in time would look like an error of etcd.
	outer := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(outer))
	stopOuter, stopClosed := context.AfterFunc(outer, cancel), context.AfterFunc(closed, cancel)
	go func() {
		defer cancel()
		defer stopOuter()
		defer stopClosed()
		defer close(p.out)
		defer p.create()
		defer p.drop()
		if err := p.run(ctx); ctx.Err() == nil && closed.Err() == nil && !errors.Is(err, io.EOF) {
			p.err = err
		}
	}()
}

func (p *paced) create() { p.creations.Do(func() { close(p.created) }) }

// run reads one stream after the other.
func (p *paced) run(ctx context.Context) error {
	for {
		err := p.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errParked):
			p.giveKept(ctx)
			p.tell(ctx)
			for !p.reading.Load() && ctx.Err() == nil {
				select {
				case <-p.wake:
				case <-ctx.Done():
				}
			}
		case broken(err):
			pause := time.NewTimer(reopenAfter)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
			}
		default:
			return rpctypes.Error(err)
		}
	}
}

// broken reports whether another stream may go on where err has ended one, as etcd's client sees it.
func broken(err error) bool {
	if errors.Is(rpctypes.Error(err), rpctypes.ErrNoLeader) {
		return false
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Internal
}

// follow opens a stream and reads it to its end.
func (p *paced) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.client.Watch(ctx, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return err
	}
	request := &etcdserverpb.WatchCreateRequest{
		Key: []byte(p.key), RangeEnd: []byte(p.end), StartRevision: p.next,
		PrevKv: !p.near, ProgressNotify: p.progress, Fragment: !p.near,
	}
	// That this fails is said by Recv.
	_ = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: request}})
	created := false
	// held are events of a revision that may go on in the next fragment.
	var held []*mvccpb.Event
	for {
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		at := resp.Header.GetRevision()
		p.past = p.past || at >= p.next-1
		if resp.Created && !resp.Canceled {
			if err := p.sameHistory(ctx, at); err != nil {
				return err
			}
			p.create()
			if p.progress && !created {
				go p.ask(ctx, stream)
			}
			created = true
			continue
		}
		if !created && len(resp.Events) == 0 && !resp.Canceled {
			// Until then etcd holds events back, but would not progress that comes after them.
			continue
		}
		events := resp.Events
		events, held = whole(held, events, resp.Fragment)
		if len(events) == 0 && resp.Fragment {
			continue
		}
		rest, err := p.answer(ctx, resp, events)
		if errors.Is(err, errParked) && len(rest) > 0 && p.keep(resp.Header, rest) {
			p.readAhead(stream, cancel, held)
		}
		if err != nil {
			return err
		}
		if resp.Canceled {
			return io.EOF
		}
	}
}

// sameHistory returns an error where an etcd that is at revision at, when a stream begins, does not have what earlier ones have
// brought: it was restored from a state before that, and would be silent until it comes to next again. A member that is behind
// has it soon; the others know.
func (p *paced) sameHistory(ctx context.Context, at int64) error {
	if at >= p.next-1 || !p.past { // or it waits for a revision in the future
		return nil
	}
	current, err := p.current(ctx)
	switch {
	case err != nil:
		return status.Error(codes.Unavailable, err.Error()) // another stream asks again
	case int64(current) < p.next-1:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// answer offers what etcd has sent, some revisions at a time. With an error it returns the events that were not taken.
func (p *paced) answer(ctx context.Context, resp *etcdserverpb.WatchResponse, events []*mvccpb.Event) (rest []*mvccpb.Event, err error) {
	for {
		n, _ := piece(events)
		err := p.offer(ctx, clientv3.WatchResponse{
			Header: resp.Header, Events: events[:n], CompactRevision: resp.CompactRevision,
			Canceled: resp.Canceled, CancelReason: resp.CancelReason,
		})
		if n == 0 && !resp.Canceled {
			// Also where it is not taken: nothing is to be read again up to there, which may be compacted by then.
			p.next = max(p.next, resp.Header.GetRevision()+1)
			if errors.Is(err, errParked) {
				p.untold = resp.Header
			}
		}
		if err != nil || n == 0 {
			return events, err
		}
		p.next = events[n-1].Kv.ModRevision + 1
		if events = events[n:]; len(events) == 0 {
			return nil, nil
		}
	}
}

// piece returns how many of the events are given at once, and their bytes: whole revisions, with little more than pieceBytes.
func piece(events []*mvccpb.Event) (n int, size int64) {
	for i, e := range events {
		if size >= pieceBytes && e.Kv.ModRevision != events[i-1].Kv.ModRevision {
			return i, size
		}
		size += int64(len(e.Kv.Key) + len(e.Kv.Value) + len(e.PrevKv.GetValue()))
	}
	return len(events), size
}

// whole returns the events of the revisions that are complete, and the others, where more fragments follow.
func whole(held, events []*mvccpb.Event, more bool) (complete, rest []*mvccpb.Event) {
	if len(held) > 0 {
		events = append(held, events...)
	}
	if !more || len(events) == 0 {
		return events, nil
	}
	n := len(events)
	for last := events[n-1].Kv.ModRevision; n > 0 && events[n-1].Kv.ModRevision == last; {
		n--
	}
	return events[:n], slices.Clone(events[n:])
}

// offer waits until the answer is taken, but not for long while nobody reads.
func (p *paced) offer(ctx context.Context, answer clientv3.WatchResponse) error {
	timer := time.NewTimer(parkAfter)
	defer timer.Stop()
	for {
		select {
		case p.out <- answer:
			return nil
		case <-timer.C:
			// Who reads may have come this moment, or be held up before it takes the answer.
			if !p.reading.Load() {
				return errParked
			}
			timer.Reset(parkAfter)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell offers what is untold until it is taken.
func (p *paced) tell(ctx context.Context) {
	if p.untold == nil {
		return
	}
	select {
	case p.out <- clientv3.WatchResponse{Header: p.untold}:
	case <-ctx.Done():
	}
	p.untold = nil
}

// read is called by who begins to wait for an answer, and rest when it waits no more.
func (p *paced) read() {
	p.reading.Store(true)
	signal(p.wake)
}

func (p *paced) rest() { p.reading.Store(false) }

// requestProgress has etcd asked for progress, by the next stream where there is none.
func (p *paced) requestProgress() { signal(p.asked) }

// ask asks for progress by the stream, whose watch etcd has.
func (p *paced) ask(ctx context.Context, stream etcdserverpb.Watch_WatchClient) {
	request := &etcdserverpb.WatchRequest{
		RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}},
	}
	for {
		select {
		case <-p.asked:
		case <-ctx.Done():
			return
		}
		if stream.Send(request) != nil {
			signal(p.asked)
			return
		}
	}
}

// signal puts something in a channel of one, unless there is.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
