package etcd3_test

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// Of writes that are refused for want of space the log has a line for the first, and then one a minute.
func TestRefusedWrites(t *testing.T) {
	for _, tc := range []struct {
		name     string
		embedded bool
		first    int
	}{{"embedded", true, 0}, {"elsewhere", false, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSmall(t)
			s.fillWithObjects()
			clock, log := newLookClock(), &lockedBuffer{}
			config := etcd3.HealthConfig{Client: s.etcd.Client(), Clock: clock, Timeout: time.Minute, Logger: slog.New(slog.NewTextHandler(log, nil))}
			if tc.embedded {
				config.Embedded = s.etcd
			}
			health, err := etcd3.StartHealth(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(health.Close)
			store := newStore(t, etcd3.Config{Client: s.etcd.Client(), Health: health})
			write := func(n int) {
				t.Helper()
				for range n {
					o := storagetest.NewObject("more")
					if _, err := store.Create(t.Context(), o.Key(), o.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeNoSpace {
						t.Fatalf("got %v, want no space", err)
					}
				}
			}
			pass := func(d time.Duration) {
				for end := clock.Now().Add(d); clock.Now().Before(end); {
					clock.look(t)
				}
			}
			want := func(lines int, line string) {
				t.Helper()
				if got := strings.Count(log.String(), "level=ERROR"); got != lines || lines > 0 && !strings.Contains(log.String(), line) {
					t.Fatalf("%d lines, want %d and %q:\n%s", got, lines, line, log)
				}
			}
			waitFor(t, func() bool { return clock.looks.Load() > 0 })
			write(5)
			want(tc.first, "etcd takes no writes")
			pass(50 * time.Second)
			want(tc.first, "etcd takes no writes")
			pass(20 * time.Second)
			if tc.embedded {
				want(1, "count=5")
			} else {
				want(2, "count=4")
			}
			write(7)
			pass(2 * time.Minute)
			want(2+tc.first, "count=7")
			write(3) // after a pause it is told at once again
			want(2+2*tc.first, "refused for want of space")
		})
	}
}

// lookClock is one that is stepped from look to look of a Health, however long the question of one takes: that would be
// given up, and etcd be down, where more than a question's time has passed by the clock.
type lookClock struct {
	*testclock.FakeClock
	looks atomic.Int64 // that are waited for, or were
}

func newLookClock() *lookClock {
	return &lookClock{FakeClock: testclock.NewFakeClock(time.Unix(0, 0))}
}

func (c *lookClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	if d == etcd3.DefaultHealthInterval || d == etcd3.HealthDownPause {
		c.looks.Add(1)
	}
	return timer
}

// look has the next look come, and waits until it is over.
func (c *lookClock) look(t *testing.T) {
	t.Helper()
	before := c.looks.Load()
	c.Step(etcd3.DefaultHealthInterval)
	waitFor(t, func() bool { return c.looks.Load() > before })
}
