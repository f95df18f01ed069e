package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// running starts a statusWriter that ends with the test.
func running(t *testing.T, before func(*statusWriter)) (s *statusWriter, stop func()) {
	t.Helper()
	s = newStatusWriter(slog.New(slog.DiscardHandler))
	before(s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return s, stop
}

func TestStatusWriterWritesTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		note := func(text string) func(context.Context) error {
			return func(context.Context) error {
				got = append(got, text)
				return nil
			}
		}
		s, _ := running(t, func(s *statusWriter) {
			s.enqueue("a", note("a1"))
			s.enqueue("b", note("b1"))
			s.enqueue("a", note("a2"))
		})
		synctest.Wait()
		s.enqueue("a", note("a3"))
		synctest.Wait()
		if want := []string{"a2", "b1", "a3"}; !slices.Equal(got, want) {
			t.Errorf("wrote %q, want %q", got, want)
		}
	})
}

func TestStatusWriterTriesAgain(t *testing.T) {
	tests := []struct {
		name string
		// failures before the first success.
		failures    int
		err         error
		dispensable bool
		want        []time.Duration
	}{
		{"until it works", 3, errors.New("busy"), false, []time.Duration{0, 40 * time.Millisecond, 120 * time.Millisecond, 280 * time.Millisecond}},
		{"not what is gone", 9, apierrors.NewNotFound(moduleResource, "x"), false, []time.Duration{0}},
		{"while the storage is away", 11, apierrors.NewServiceUnavailable("away"), false,
			[]time.Duration{0, 40e6, 120e6, 280e6, 600e6, 1240e6, 2520e6, 5080e6, 10200e6, 20440e6, 40920e6, 70920e6}},
		{"not for ever what is refused", 99, apierrors.NewBadRequest("broken"), false, []time.Duration{0, 40e6, 120e6, 280e6, 600e6, 1240e6, 2520e6, 5080e6}},
		{"not for ever what nobody waits for", 99, errors.New("broken"), true, []time.Duration{0, 40e6, 120e6, 280e6, 600e6, 1240e6, 2520e6, 5080e6}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var got []time.Duration
				running(t, func(s *statusWriter) {
					enqueue := s.enqueue
					if tc.dispensable {
						enqueue = s.enqueueDispensable
					}
					enqueue("a", func(context.Context) error {
						got = append(got, time.Since(start))
						if len(got) <= tc.failures {
							return tc.err
						}
						return nil
					})
				})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if !slices.Equal(got, tc.want) {
					t.Errorf("tried after %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestStatusWriterPrefersTheNewestToARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		block := make(chan struct{})
		s, _ := running(t, func(s *statusWriter) {
			s.enqueue("a", func(context.Context) error {
				got = append(got, "old")
				return errors.New("busy")
			})
			s.enqueue("slow", func(context.Context) error {
				<-block
				return nil
			})
		})
		synctest.Wait()
		// The newest waits in the queue when the retry comes.
		s.enqueue("a", func(context.Context) error {
			got = append(got, "new")
			return nil
		})
		time.Sleep(time.Second)
		close(block)
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"old", "new"}; !slices.Equal(got, want) {
			t.Errorf("wrote %q, want %q", got, want)
		}
	})
}

func TestStatusWriterIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var written time.Duration
		running(t, func(s *statusWriter) {
			s.enqueue("stuck", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			s.enqueue("other", func(context.Context) error {
				written = time.Since(start)
				return nil
			})
		})
		time.Sleep(time.Hour) // of the test's own clock
		synctest.Wait()
		if written != statusTimeout {
			t.Errorf("the other was written after %v, want %v", written, statusTimeout)
		}
	})
}

func TestStatusWriterFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive, again bool
		attempts := 0
		s, stop := running(t, func(s *statusWriter) {
			s.enqueue("again", func(ctx context.Context) error {
				if attempts++; attempts == 1 {
					return errors.New("busy")
				}
				again = ctx.Err() == nil
				return nil
			})
		})
		synctest.Wait()
		block := make(chan struct{})
		s.enqueue("slow", func(ctx context.Context) error {
			<-block
			return nil
		})
		synctest.Wait()
		s.enqueue("left", func(ctx context.Context) error {
			alive = ctx.Err() == nil
			return nil
		})
		go stop()
		synctest.Wait()
		close(block)
		synctest.Wait()
		if !alive || !again {
			t.Errorf("what was left at the stop was not written: left %v, again %v", alive, again)
		}
	})
}

// What is left at a stop is written also where each write takes a second.
func TestStatusWriterFlushesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := 0
		_, stop := running(t, func(s *statusWriter) {
			for i := range 8 {
				s.enqueue(fmt.Sprint(i), func(ctx context.Context) error {
					select {
					case <-time.After(time.Second):
						written++
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}
		})
		synctest.Wait()
		stop()
		if written != 8 {
			t.Errorf("%d of 8 were written", written)
		}
	})
}

// A status that is written anew again and again while the storage is away is tried again as one.
func TestStatusWriterTriesTheNewestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried atomic.Int64
		var away atomic.Bool
		away.Store(true)
		s, _ := running(t, func(*statusWriter) {})
		enqueue := func() {
			s.enqueue("a", func(context.Context) error {
				tried.Add(1)
				if away.Load() {
					return errors.New("away")
				}
				return nil
			})
		}
		for range 100 {
			enqueue()
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		tried.Store(0)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := tried.Load(); n != 20 {
			t.Errorf("tried %d times in ten minutes, want 20", n)
		}
		away.Store(false)
		tried.Store(0)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.mu.Lock()
		left := len(s.newest)
		s.mu.Unlock()
		if n := tried.Load(); n != 1 || left != 0 {
			t.Errorf("tried %d times when it is back, and %d are left", n, left)
		}
	})
}
