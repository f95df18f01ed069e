package etcd3

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scripted is an etcd whose streams say what a test has them say.
type scripted struct {
	etcdserverpb.WatchClient
	streams chan *scriptedStream
}

func (s *scripted) Watch(ctx context.Context, _ ...grpc.CallOption) (etcdserverpb.Watch_WatchClient, error) {
	stream := &scriptedStream{ctx: ctx, requests: make(chan *etcdserverpb.WatchRequest, 8), answers: make(chan *etcdserverpb.WatchResponse)}
	select {
	case s.streams <- stream:
		return stream, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type scriptedStream struct {
	grpc.ClientStream
	ctx      context.Context //nolint:containedctx // as of the stream
	requests chan *etcdserverpb.WatchRequest
	// answers is closed when the stream breaks.
	answers chan *etcdserverpb.WatchResponse
}

func (s *scriptedStream) Send(r *etcdserverpb.WatchRequest) error {
	s.requests <- r
	return nil
}

func (s *scriptedStream) Recv() (*etcdserverpb.WatchResponse, error) {
	select {
	case answer, ok := <-s.answers:
		if !ok {
			return nil, status.Error(codes.Unavailable, "broken")
		}
		return answer, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// say has the stream answer. It is false when nobody hears it any more.
func (s *scriptedStream) say(answers ...*etcdserverpb.WatchResponse) bool {
	for _, answer := range answers {
		select {
		case s.answers <- answer:
		case <-s.ctx.Done():
			return false
		}
	}
	return true
}

func at(rev int64) *etcdserverpb.ResponseHeader { return &etcdserverpb.ResponseHeader{Revision: rev} }

func put(rev int64) *etcdserverpb.WatchResponse {
	return &etcdserverpb.WatchResponse{Header: at(rev), Events: []*mvccpb.Event{
		{Type: mvccpb.Event_PUT, Kv: &mvccpb.KeyValue{Key: []byte("/a/x"), CreateRevision: rev, ModRevision: rev}},
	}}
}

// putMiB is put with a value of a MiB.
func putMiB(rev int64) *etcdserverpb.WatchResponse {
	answer := put(rev)
	answer.Events[0].Kv.Value = mib
	return answer
}

var mib = make([]byte, 1<<20)

// endless has each stream of an etcd tell a MiB at each revision, and counts them.
func (s *scripted) endless(ctx context.Context) *atomic.Int64 {
	var streams atomic.Int64
	go func() {
		for {
			var stream *scriptedStream
			select {
			case stream = <-s.streams:
			case <-ctx.Done():
				return
			}
			streams.Add(1)
			rev := (<-stream.requests).GetCreateRequest().StartRevision
			for more := stream.say(&etcdserverpb.WatchResponse{Header: at(rev), Created: true}); more; rev++ {
				more = stream.say(putMiB(rev))
			}
		}
	}()
	return &streams
}

func (a *ahead) inUse() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

func startScripted(ctx context.Context) (*paced, *scripted) {
	etcd := &scripted{streams: make(chan *scriptedStream)}
	p := &paced{client: etcd, key: "/a/", end: "/a0", progress: true, next: 11, ahead: &ahead{}}
	p.start(ctx, context.Background())
	return p, etcd
}

// take reads as a watcher does that is held up before it takes the answer.
func (p *paced) take(t *testing.T, held time.Duration) clientv3.WatchResponse {
	t.Helper()
	p.read()
	defer p.rest()
	time.Sleep(held)
	select {
	case answer := <-p.out:
		return answer
	case <-time.After(time.Hour):
		t.Fatal("no answer comes")
		panic("unreachable")
	}
}

// A stream that follows a broken one is not asked for progress before etcd has the watch, and what it says of progress before
// is not believed: the events up to there are held back until then.
func TestPacedProgressOfNextStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p, etcd := startScripted(ctx)
		first := <-etcd.streams
		first.say(&etcdserverpb.WatchResponse{Header: at(10), Created: true})
		<-p.created
		close(first.answers)
		synctest.Wait()
		p.requestProgress()
		second := <-etcd.streams
		synctest.Wait()
		if n := len(second.requests); n != 1 {
			t.Errorf("%d requests before the watch is there, want its own", n)
		}
		go second.say(
			&etcdserverpb.WatchResponse{Header: at(20), WatchId: clientv3.InvalidWatchID},
			&etcdserverpb.WatchResponse{Header: at(20), Created: true},
			put(15),
			&etcdserverpb.WatchResponse{Header: at(21), WatchId: clientv3.InvalidWatchID})
		if answer := p.take(t, 0); len(answer.Events) != 1 || answer.Events[0].Kv.ModRevision != 15 {
			t.Errorf("first came %v, want the event", answer)
		}
		if answer := p.take(t, 0); !answer.IsProgressNotify() || answer.Header.Revision != 21 {
			t.Errorf("then came %v, want the progress", answer)
		}
		synctest.Wait()
		if n := len(second.requests); n != 2 {
			t.Errorf("%d requests, want another for progress", n)
		}
	})
}

// A stream that begins at an etcd which does not have what the ones before it have brought ends the watch: the etcd was restored
// from an earlier state. One that is behind others does not, nor one that has not yet come to where the watch begins.
func TestPacedSameHistory(t *testing.T) {
	created := func(rev int64) *etcdserverpb.WatchResponse {
		return &etcdserverpb.WatchResponse{Header: at(rev), Created: true}
	}
	progress := func(rev int64) *etcdserverpb.WatchResponse {
		return &etcdserverpb.WatchResponse{Header: at(rev), WatchId: clientv3.InvalidWatchID}
	}
	tests := []struct {
		name string
		from int64 // where the watch begins
		// first is said by the first stream, of which the watcher takes all but the first answer; others begin at 12.
		first []*etcdserverpb.WatchResponse
		// current is what the others are at, each time that they are asked; 0: they do not answer.
		current []uint64
		ends    bool
	}{
		{"restored", 14, []*etcdserverpb.WatchResponse{created(20), put(15)}, []uint64{12}, true},
		{"restored after nothing but progress", 14, []*etcdserverpb.WatchResponse{created(20), progress(20)}, []uint64{12}, true},
		{"restored after it began in the future", 14, []*etcdserverpb.WatchResponse{created(5), put(15)}, []uint64{12}, true},
		{"restored, and silent at first", 14, []*etcdserverpb.WatchResponse{created(20), put(15)}, []uint64{0, 0, 12}, true},
		{"behind", 14, []*etcdserverpb.WatchResponse{created(20), put(15)}, []uint64{15}, false},
		{"behind, and silent at first", 14, []*etcdserverpb.WatchResponse{created(20), put(15)}, []uint64{0, 20}, false},
		{"there again", 11, []*etcdserverpb.WatchResponse{created(20), put(12)}, nil, false},
		{"in the future", 14, []*etcdserverpb.WatchResponse{created(5)}, nil, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				etcd := &scripted{streams: make(chan *scriptedStream)}
				var asked atomic.Int64
				p := &paced{client: etcd, key: "/a/", end: "/a0", progress: true, next: tc.from, ahead: &ahead{}}
				p.current = func(context.Context) (uint64, error) {
					rv := tc.current[asked.Add(1)-1]
					if rv == 0 {
						return 0, status.Error(codes.DeadlineExceeded, "silent")
					}
					return rv, nil
				}
				p.start(ctx, context.Background())
				first := <-etcd.streams
				go func() {
					first.say(tc.first...)
					close(first.answers)
				}()
				for range tc.first[1:] {
					p.take(t, 0)
				}
				go func() {
					for ctx.Err() == nil {
						select {
						case next := <-etcd.streams:
							next.say(created(12), put(30))
						case <-ctx.Done():
						}
					}
				}()
				answer := p.take(t, 0)
				if tc.ends != (len(answer.Events) == 0) || tc.ends && !errors.Is(p.err, rpctypes.ErrCompacted) {
					t.Errorf("%v came, error %v", answer, p.err)
				}
				if n := asked.Load(); n != int64(len(tc.current)) {
					t.Errorf("etcd was asked for its revision %d times", n)
				}
			})
		})
	}
}

// A watch of which nobody takes that nothing has happened goes on behind that: what was before may be compacted by then.
func TestPacedProgressNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p, etcd := startScripted(ctx)
		first := <-etcd.streams
		first.say(
			&etcdserverpb.WatchResponse{Header: at(10), Created: true},
			&etcdserverpb.WatchResponse{Header: at(20), WatchId: clientv3.InvalidWatchID})
		time.Sleep(2 * parkAfter)
		// Who reads later is told: etcd would say it again only when there is another revision.
		if answer := p.take(t, 0); !answer.IsProgressNotify() || answer.Header.Revision != 20 {
			t.Errorf("%v came, want the progress", answer)
		}
		p.read()
		second := <-etcd.streams
		if from := (<-second.requests).GetCreateRequest().StartRevision; from != 21 {
			t.Errorf("the next stream begins at %d", from)
		}
		// That it is compacted is not passed over.
		second.say(
			&etcdserverpb.WatchResponse{Header: at(40), Created: true},
			&etcdserverpb.WatchResponse{Header: at(40), Canceled: true, CompactRevision: 30})
		p.rest()
		time.Sleep(2 * parkAfter)
		p.read()
		if from := (<-(<-etcd.streams).requests).GetCreateRequest().StartRevision; from != 21 {
			t.Errorf("the stream after it begins at %d", from)
		}
	})
}

// Who reads gets each answer, however long it is held up between saying that it reads and taking one. Only for one that does
// not read is the stream closed.
func TestPacedHeldReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p, etcd := startScripted(ctx)
		streams := etcd.endless(ctx)
		next := int64(11)
		for i := range 100 {
			held := []time.Duration{0, parkAfter / 2, parkAfter, parkAfter + time.Millisecond, 5 * parkAfter}[i%5]
			if rev := p.take(t, held).Events[0].Kv.ModRevision; rev != next {
				t.Fatalf("%d came, want %d", rev, next)
			}
			next++
		}
		synctest.Wait()
		if n := streams.Load(); n != 1 {
			t.Errorf("%d streams for one that reads", n)
		}
		time.Sleep(3 * parkAfter)
		for range 2 * aheadBytes / len(mib) {
			if rev := p.take(t, 5*parkAfter).Events[0].Kv.ModRevision; rev != next {
				t.Fatalf("%d came after a pause, want %d", rev, next)
			}
			next++
		}
		if n := streams.Load(); n != 2 {
			t.Errorf("%d streams for one that paused once", n)
		}
	})
}

// Who reads slowly has etcd read its history for many MiB at a time; what is kept for that is given back.
func TestPacedSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p, etcd := startScripted(ctx)
		streams := etcd.endless(ctx)
		const answers = 8 * aheadBytes >> 20
		for next := int64(11); next < 11+answers; next++ {
			if rev := p.take(t, 0).Events[0].Kv.ModRevision; rev != next {
				t.Fatalf("%d came, want %d", rev, next)
			}
			time.Sleep(2 * parkAfter)
			if used := p.ahead.inUse(); used > aheadBytes/2 {
				t.Fatalf("%d bytes are kept", used)
			}
		}
		if n := streams.Load(); n > 20 {
			t.Errorf("%d streams for %d MiB", n, answers)
		}
		cancel()
		synctest.Wait()
		if used := p.ahead.inUse(); used != 0 {
			t.Errorf("%d bytes are kept in the end", used)
		}
	})
}

// What is kept is shared, and given up when nobody has read for a while; then it is read again.
func TestPacedKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all []*paced
		shared := &ahead{}
		for range 10 {
			etcd := &scripted{streams: make(chan *scriptedStream)}
			etcd.endless(ctx)
			p := &paced{client: etcd, key: "/a/", end: "/a0", next: 11, ahead: shared}
			p.start(ctx, context.Background())
			all = append(all, p)
		}
		time.Sleep(3 * parkAfter)
		synctest.Wait()
		if used := shared.inUse(); used < aheadBytes*3/4 || used > aheadBytes {
			t.Errorf("%d bytes are kept", used)
		}
		time.Sleep(keepFor)
		synctest.Wait()
		if used := shared.inUse(); used != 0 {
			t.Errorf("%d bytes are kept in the end", used)
		}
		for _, p := range all {
			for next := int64(11); next < 50; next++ {
				if rev := p.take(t, 0).Events[0].Kv.ModRevision; rev != next {
					t.Fatalf("%d came, want %d", rev, next)
				}
			}
		}
	})
}

// Whatever streams do and however their watches are read, each gets all events once, in order and by whole revisions, and what is
// kept stays within its bound and is given back.
func TestHammerPaced(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			shared := &ahead{}
			var reading, telling sync.WaitGroup
			for i := range uint64(6) {
				etcd := &scripted{streams: make(chan *scriptedStream)}
				telling.Go(func() { etcd.erratic(ctx, rand.New(rand.NewPCG(seed, i))) })
				p := &paced{client: etcd, key: "/a/", end: "/a0", progress: true, next: 11, ahead: shared}
				p.start(ctx, context.Background())
				reading.Go(func() { p.readErratically(t, rand.New(rand.NewPCG(i, seed))) })
			}
			reading.Wait()
			cancel()
			telling.Wait()
			synctest.Wait()
			if used := shared.inUse(); used != 0 {
				t.Errorf("%d bytes are kept in the end", used)
			}
		})
	}
}

// lastErratic is the last revision of an erratic etcd.
const lastErratic = 150

// eventsOf returns those of a revision, the same each time.
func eventsOf(rev int64) []*mvccpb.Event {
	events := make([]*mvccpb.Event, 1+rev%3)
	for i := range events {
		events[i] = &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte{byte(i)}, Value: mib[:rev*7919%int64(len(mib))], ModRevision: rev}}
	}
	return events
}

// erratic has the streams of an etcd tell some revisions at a time, in fragments or not, and of progress, and break.
func (s *scripted) erratic(ctx context.Context, r *rand.Rand) {
	for {
		var stream *scriptedStream
		select {
		case stream = <-s.streams:
		case <-ctx.Done():
			return
		}
		rev := (<-stream.requests).GetCreateRequest().StartRevision
		more := stream.say(&etcdserverpb.WatchResponse{Header: at(lastErratic), Created: true})
		for more && r.IntN(40) > 0 {
			var events []*mvccpb.Event
			for n := r.IntN(8); n > 0 && rev <= lastErratic; n-- {
				events = append(events, eventsOf(rev)...)
				rev++
			}
			for more && len(events) > 0 && r.IntN(2) == 0 {
				n := 1 + r.IntN(len(events))
				if n == len(events) {
					break
				}
				more = stream.say(&etcdserverpb.WatchResponse{Header: at(lastErratic), Events: events[:n:n], Fragment: true})
				events = events[n:]
			}
			if more && len(events) > 0 {
				more = stream.say(&etcdserverpb.WatchResponse{Header: at(lastErratic), Events: events})
			}
			if rev > lastErratic && more && r.IntN(2) == 0 {
				more = stream.say(&etcdserverpb.WatchResponse{Header: at(lastErratic), WatchId: clientv3.InvalidWatchID})
			}
			time.Sleep(time.Duration(r.IntN(int(parkAfter))))
		}
		close(stream.answers)
	}
}

func (p *paced) readErratically(t *testing.T, r *rand.Rand) {
	for next := int64(11); next <= lastErratic; {
		answer := p.take(t, time.Duration(r.IntN(3))*parkAfter)
		for events := answer.Events; len(events) > 0; next++ {
			for i, want := range eventsOf(next) {
				if i >= len(events) || events[i].Kv.ModRevision != next || events[i].Kv.Key[0] != want.Kv.Key[0] {
					t.Errorf("event %d of revision %d is missing or torn", i, next)
					return
				}
			}
			events = events[len(eventsOf(next)):]
		}
		if answer.IsProgressNotify() && answer.Header.Revision >= next {
			t.Errorf("progress at %d before the events of %d", answer.Header.Revision, next)
		}
		if used := p.ahead.inUse(); used > aheadBytes {
			t.Errorf("%d bytes are kept", used)
		}
		switch r.IntN(12) {
		case 0:
			time.Sleep(2 * keepFor)
		case 1, 2, 3:
			time.Sleep(3 * parkAfter)
		}
	}
}
