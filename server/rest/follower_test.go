package rest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
)

// scripted gives one watch after the other, each of which ends when its channel is closed.
type scripted struct{ watches []chan []Event }

func (s *scripted) Watch(ctx context.Context, _ *internalversion.ListOptions) (Watch, error) {
	if len(s.watches) == 0 {
		return nil, errors.New("no more")
	}
	next := s.watches[0]
	s.watches = s.watches[1:]
	return scriptedWatch(next), nil
}

type scriptedWatch chan []Event

func (scriptedWatch) Stop() {}

func (w scriptedWatch) Next(ctx context.Context) ([]Event, error) {
	select {
	case events, ok := <-w:
		if !ok {
			return nil, io.EOF
		}
		return events, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type ignoring struct{}

func (ignoring) Replace([]*document.Document) {}
func (ignoring) Change(Event)                 {}

// Who waits for a write waits for that write, also where another one had its revision before the storage was restored from
// an earlier state.
func TestFollowerOfRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan []Event), make(chan []Event)
		f := NewFollower("things", &scripted{[]chan []Event{first, second}}, ignoring{}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Run(ctx)
		}()
		state := func(rv string) []Event {
			return []Event{{Type: "BOOKMARK", ResourceVersion: rv, InitialEventsEnd: true}}
		}
		change := func(rv string) []Event { return []Event{{Type: "ADDED", ResourceVersion: rv}} }
		waited := func(rv string) bool {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return f.WaitFor(ctx, rv) == nil
		}
		first <- state("90")
		first <- change("100")
		if !waited("100") || waited("101") {
			t.Error("100 is what was seen")
		}
		close(first)
		second <- state("9")
		synctest.Wait()
		if waited("50") {
			t.Error("a write at 50 was waited for by what had 100 before")
		}
		second <- change("50")
		if !waited("50") {
			t.Error("a write at 50 is not seen")
		}
		cancel()
		<-ended
	})
}

// spoilt has an object that cannot be read.
type spoilt struct {
	readable *List // nil: too few
}

func (*spoilt) Watch(context.Context, *internalversion.ListOptions) (Watch, error) {
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonStoreReadError, Message: "bad"}}
}

func (s *spoilt) ListReadable(context.Context) (*List, error) {
	if s.readable == nil {
		return nil, errors.New("too many")
	}
	return s.readable, nil
}

// Nobody waits long for what does not come as something stored cannot be read; a follower that does without it goes on.
func TestFollowerOfUnreadable(t *testing.T) {
	for _, tc := range []struct {
		name             string
		without, tooMany bool
		want             bool
	}{{"breaks", false, false, false}, {"goes on", true, false, true}, {"too many", true, true, false}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &spoilt{readable: &List{ResourceVersion: "7"}}
				if tc.tooMany {
					source.readable = nil
				}
				f := NewFollower("things", source, ignoring{}, slog.New(slog.DiscardHandler))
				if tc.without {
					f.WithoutUnreadable()
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					f.Run(ctx)
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				if tc.want {
					source.readable = &List{ResourceVersion: "8"} // a write
				}
				began := time.Now()
				err := f.WaitFor(ctx, "8")
				var unreadable *UnreadableError
				if tc.want && err != nil || !tc.want && !errors.As(err, &unreadable) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %s", took)
				}
				cancel()
				<-ended
			})
		})
	}
}

// breaking gives watches that each end some time after the whole state.
type breaking struct {
	after  time.Duration
	opened []time.Time
}

func (b *breaking) Watch(context.Context, *internalversion.ListOptions) (Watch, error) {
	b.opened = append(b.opened, time.Now())
	next := make(chan []Event, 1)
	next <- []Event{{Type: "BOOKMARK", ResourceVersion: "1", InitialEventsEnd: true}}
	time.AfterFunc(b.after, func() { close(next) })
	return scriptedWatch(next), nil
}

// A stream that breaks again and again is opened again after growing pauses, also where each had given the whole state. One that
// lasted is opened again at once.
func TestFollowerPauses(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		want  int // streams in a minute
	}{{0, 18}, {time.Second, 15}, {6 * time.Second, 10}} {
		synctest.Test(t, func(t *testing.T) {
			b := &breaking{after: tc.after}
			f := NewFollower("things", b, ignoring{}, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			f.Run(ctx)
			if len(b.opened) != tc.want {
				t.Errorf("%d streams that last %v, want %d", len(b.opened), tc.after, tc.want)
			}
		})
	}
}
