package cacher

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"weir.dev/weir/server/storage"
)

// manyPasts returns a cacher and more watchers from before its start than may read from
// the storage at a time. Each has two events to come.
func manyPasts(t *testing.T, clock *clocktesting.FakeClock) (*Cacher, *fake, []storage.Watcher) {
	t.Helper()
	store := newFake()
	for _, name := range []string{"x", "y", "z"} {
		putPod(t, store, "a", name, "", "")
	}
	c := started(t, store, func(config *Config) {
		if clock != nil {
			config.Clock = clock
		}
	})
	var all []storage.Watcher
	for range maxPast + 40 {
		all = append(all, mustWatch(t, c, testPrefix, selecting(t, "2", "", "")))
	}
	return c, store, all
}

// TestPastTurns: watchers that may not read from the storage yet wait, and lose nothing.
func TestPastTurns(t *testing.T) {
	c, store, all := manyPasts(t, nil)
	last := all[len(all)-1]
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if events, err := last.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a watcher that waits for its turn: %d events, %v", len(events), err)
	}
	// One that is stopped while it waits, and one while it reads, hold nobody up.
	all[maxPast+1].Stop()
	all[0].Stop()
	for i, w := range all {
		if i == 0 || i == maxPast+1 {
			if err := wantEnd(t, w); err != io.EOF {
				t.Errorf("stopped watcher: %v", err)
			}
			continue
		}
		wantEvents(t, &oneByOne{Watcher: w}, "ADDED a/y@3", "ADDED a/z@4")
	}
	if n, q := len(c.pasts.readers), len(c.pasts.queue); n != 0 || q != 0 || store.watches != 1 {
		t.Errorf("%d readers of the past, %d in the queue, %d watches of the storage", n, q, store.watches)
	}
}

// TestPastTurnNeverComes: those that have the turn and do not read hold the others up for a while only.
func TestPastTurnNeverComes(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	_, _, all := manyPasts(t, clock)
	clock.Step(pastWait)
	var e *storage.Error
	if err := wantEnd(t, all[len(all)-1]); !errors.As(err, &e) || e.Code != storage.ErrCodeExpired || e.ResourceVersion != 2 {
		t.Errorf("error %v", err)
	}
	wantEvents(t, &oneByOne{Watcher: all[0]}, "ADDED a/y@3", "ADDED a/z@4")
}

// TestPastStop: a stop of the cacher ends the watchers that read from the storage and those that wait.
func TestPastStop(t *testing.T) {
	c, store, all := manyPasts(t, nil)
	c.Stop()
	for _, w := range all {
		if err := wantEnd(t, w); err != io.EOF {
			t.Fatalf("after stop: %v", err)
		}
	}
	if store.watches != 0 {
		t.Errorf("%d watches of the storage", store.watches)
	}
}
