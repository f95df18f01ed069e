package cacher

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// slow is a storage whose exact lists, as comparisons make them, take a time.
type slow struct {
	*fake
	takes time.Duration
}

func (s *slow) GetList(ctx context.Context, key string, opts storage.ListOptions) (storage.List, error) {
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		time.Sleep(s.takes)
	}
	return s.fake.GetList(ctx, key, opts)
}

// Comparisons that take long are made so much less often that they take their share of the time, and no less often than
// every five minutes.
func TestCheckShare(t *testing.T) {
	tests := []struct {
		name  string
		share float64
		takes time.Duration
		pause time.Duration // between two comparisons, on the average
	}{
		{"short ones come at the interval", 1.0 / 200, 10 * time.Millisecond, 5 * time.Second},
		{"long ones give way", 1.0 / 200, 100 * time.Millisecond, 20 * time.Second},
		{"very long ones do up to a bound", 1.0 / 200, 10 * time.Second, longestCheckPause},
		{"any share", 0, 100 * time.Millisecond, 5 * time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slow{newFake(), tc.takes}
				c := newTestCacher(t, store, func(c *Config) { c.CheckInterval, c.CheckShare = 5*time.Second, tc.share })
				connect(t, c)
				stop := make(chan struct{})
				go func() {
					for { // else comparisons are left out
						select {
						case <-time.After(time.Second):
							store.skip(1)
						case <-stop:
							return
						}
					}
				}()
				const comparisons = 200
				time.Sleep(comparisons * (tc.pause + tc.takes))
				// The pauses vary by a half at most, so the mean of 200 by a few hundredths.
				if n := counted(t, c.metrics.checkSuccess); n < comparisons*0.8 || n > comparisons*1.25 {
					t.Errorf("%v comparisons, want about %d", n, comparisons)
				}
				close(stop)
				c.Stop()
			})
		})
	}
}

// No pause is further from the mean than a half of it.
func TestCheckPause(t *testing.T) {
	tests := []struct {
		share float64
		took  time.Duration
		left  int
		mean  time.Duration
	}{
		{0.01, 0, 0, time.Second},
		{0.01, 10 * time.Millisecond, 0, time.Second},
		{0.01, 50 * time.Millisecond, 0, 5 * time.Second},
		{0.01, time.Minute, 0, longestCheckPause},
		{0.01, 0, 1, 2 * time.Second},
		{0.01, 0, 3, 8 * time.Second},
		{0.01, 50 * time.Millisecond, 1, 5 * time.Second},
		{0.01, 0, idleChecks, longestCheckPause},
		{0.01, 0, 1000, longestCheckPause},
		{0, time.Minute, 5, time.Second},
	}
	for _, tc := range tests {
		c := newTestCacher(t, newFake(), func(c *Config) { c.CheckInterval, c.CheckShare = time.Second, tc.share })
		for range 1000 {
			if pause := c.checkPause(tc.took, tc.left); pause < tc.mean/2 || pause >= tc.mean/2+tc.mean {
				t.Fatalf("a share of %v, after %s, %d left out: a pause of %s, want %s give or take a half", tc.share, tc.took, tc.left, pause, tc.mean)
			}
		}
	}
}
