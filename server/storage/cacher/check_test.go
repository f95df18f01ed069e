package cacher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

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
		ago   time.Duration
		mean  time.Duration
	}{
		{0.01, 0, 0, 0, time.Second},
		{0.01, 10 * time.Millisecond, 0, 0, time.Second},
		{0.01, 50 * time.Millisecond, 0, 0, 5 * time.Second},
		{0.01, time.Minute, 0, 0, longestCheckPause},
		{0.01, 0, 1, 0, 2 * time.Second},
		{0.01, 0, 3, 0, 8 * time.Second},
		{0.01, 50 * time.Millisecond, 1, 0, 5 * time.Second},
		{0.01, 0, idleChecks, 0, longestCheckPause},
		{0.01, 0, 1000, 0, longestCheckPause},
		{0, time.Minute, 5, 0, time.Second},
		{0.01, 0, 8, longestCheckPause - 150*time.Second, 150 * time.Second},
		{0.01, 0, 3, time.Hour, time.Second}, // it could not be tried
		{0.01, time.Minute, 0, longestCheckPause, time.Second},
	}
	for _, tc := range tests {
		c := newTestCacher(t, newFake(), func(c *Config) { c.CheckInterval, c.CheckShare = time.Second, tc.share })
		rest := longestCheckPause - tc.ago
		if rest <= 0 {
			rest = math.MaxInt64
		}
		for range 1000 {
			if pause := c.checkPause(tc.took, tc.left, tc.ago); pause < min(tc.mean/2, rest) || pause >= tc.mean/2+tc.mean || pause > rest {
				t.Fatalf("a share of %v, after %s, %d left out: a pause of %s, want %s give or take a half", tc.share, tc.took, tc.left, pause, tc.mean)
			}
		}
	}
}

// However big the cache and however quiet etcd, two comparisons are no further apart than five minutes and what one takes.
func TestChecksAreNeverFarApart(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := &slow{newFake(), takes}
			putPod(t, store, "a", "x", "", "")
			c := newTestCacher(t, store, func(c *Config) { c.CheckInterval, c.CheckShare = 5*time.Second, 1.0/200 })
			connect(t, c)
			for range 100 {
				before := counted(t, c.metrics.checkSuccess)
				time.Sleep(longestCheckPause + takes)
				if n := counted(t, c.metrics.checkSuccess) - before; n == 0 {
					t.Fatalf("no comparison in %s, where one takes %s", longestCheckPause+takes, takes)
				}
			}
			if n := counted(t, c.metrics.checkSuccess); n > 250 {
				t.Errorf("%v comparisons while nothing was written", n)
			}
			c.Stop()
		})
	}
}

// awayFor is a storage that watches cannot be opened in, or exact lists read, for a while.
type awayFor struct {
	*fake
	watchesFail, listsFail atomic.Bool
}

var errAway = errors.New("away")

func (a *awayFor) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	if a.watchesFail.Load() {
		return nil, errAway
	}
	return a.fake.Watch(ctx, key, opts)
}

func (a *awayFor) GetList(ctx context.Context, key string, opts storage.ListOptions) (storage.List, error) {
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		time.Sleep(10 * time.Second)
		if a.listsFail.Load() {
			return storage.List{}, errAway
		}
	}
	return a.fake.GetList(ctx, key, opts)
}

// A comparison that could not be made when it was due is made soon after, and one that fails costs no more than one that
// does not.
func TestChecksAreMadeUp(t *testing.T) {
	const interval, takes = 5 * time.Second, 10 * time.Second
	tests := []struct {
		name string
		fail func(a *awayFor, fails bool)
		// within is how long after the trouble a comparison is done, errors how many fail in an hour of it.
		within time.Duration
		errors float64
	}{
		{"the watch is away", func(a *awayFor, fails bool) {
			a.watchesFail.Store(fails)
			a.kill(errAway)
		}, 2*interval + longestBackoff + takes, 0},
		{"lists fail", func(a *awayFor, fails bool) { a.listsFail.Store(fails) }, longestCheckPause + takes, 24},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &awayFor{fake: newFake()}
				putPod(t, store, "a", "x", "", "")
				c := newTestCacher(t, store, func(c *Config) { c.CheckInterval, c.CheckShare = interval, 1.0/200 })
				connect(t, c)
				for i := range 50 {
					time.Sleep(longestCheckPause + takes)
					tc.fail(store, true)
					time.Sleep(longestCheckPause + takes + time.Duration(i)*time.Second)
					tc.fail(store, false)
					before := counted(t, c.metrics.checkSuccess)
					time.Sleep(tc.within)
					if counted(t, c.metrics.checkSuccess) == before {
						t.Fatalf("no comparison within %s", tc.within)
					}
				}
				tc.fail(store, true)
				before := counted(t, c.metrics.checkError)
				time.Sleep(time.Hour)
				if n := counted(t, c.metrics.checkError) - before; n > tc.errors {
					t.Errorf("%v comparisons have failed in an hour", n)
				}
				c.Stop()
			})
		})
	}
}

// Labels and fields that an object does not have are found, as what an index finds, by any comparison of a small cache
// and by the comparisons of a big one together.
func TestCheckAttributes(t *testing.T) {
	attrs := func(app, node string) (labels.Set, fields.Set) {
		return labels.Set{"app": app}, fields.Set{nameField: "0007", namespaceField: "a", "spec.nodeName": node}
	}
	tests := []struct {
		name   string
		change func(l labels.Set, f fields.Set)
		equal  bool
	}{
		{"nothing", func(labels.Set, fields.Set) {}, true},
		{"another label", func(l labels.Set, _ fields.Set) { l["app"] = "b" }, false},
		{"no label", func(l labels.Set, _ fields.Set) { delete(l, "app") }, false},
		{"a label more", func(l labels.Set, _ fields.Set) { l["more"] = "" }, false},
		{"another field", func(_ labels.Set, f fields.Set) { f["spec.nodeName"] = "m" }, false},
		{"no field", func(_ labels.Set, f fields.Set) { delete(f, "spec.nodeName") }, false},
		{"no name", func(_ labels.Set, f fields.Set) { delete(f, nameField) }, false},
		{"another namespace", func(_ labels.Set, f fields.Set) { f[namespaceField] = "b" }, false},
		{"a field more", func(_ labels.Set, f fields.Set) { f["more"] = "" }, false},
	}
	for _, rows := range []int{20, 2 * fewRows} {
		store := newFake()
		for i := range rows {
			putPod(t, store, "a", fmt.Sprintf("%04d", i), "n", "a")
		}
		for _, tc := range tests {
			t.Run(fmt.Sprintf("%s of %d", tc.name, rows), func(t *testing.T) {
				c := started(t, store, nil)
				c.addIndex(nodeIndex)
				l, f := attrs("a", "n")
				tc.change(l, f)
				c.mu.Lock()
				right := c.rows.get("a/0007")
				c.rows.set("a/0007", newElement(right.row, len(testPrefix), l, f))
				c.frozen = nil
				c.mu.Unlock()
				if err := c.Check(t.Context()); (err == nil) != tc.equal || err != nil && !strings.Contains(err.Error(), `key "/registry/pods/a/0007" is cached with other labels or fields than it has`) {
					t.Errorf("a check: %v", err)
				}
				found := 0
				for turn := range attrsShare {
					if err := c.check(t.Context(), &comparison{turn: turn, of: attrsShare}); err != nil {
						found++
					}
				}
				want := 1
				switch {
				case tc.equal:
					want = 0
				case rows < fewRows:
					want = attrsShare
				}
				if found != want {
					t.Errorf("%d of %d comparisons have found it, want %d", found, attrsShare, want)
				}
			})
		}
	}
}

// The comparisons that a cache makes by itself go through all rows.
func TestChecksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		for i := range fewRows {
			putPod(t, store, "a", fmt.Sprintf("%04d", i), "n", "a")
		}
		told := make(chan error, 1)
		c := newTestCacher(t, store, func(c *Config) {
			c.CheckInterval = time.Second
			c.OnInconsistent = func(err error) { told <- err }
		})
		connect(t, c)
		for i := range 20 {
			c.mu.Lock()
			right := c.rows.get(fmt.Sprintf("a/%04d", 100+i))
			c.rows.set(right.suffix(), newElement(right.row, len(testPrefix), nil, nil))
			c.frozen = nil
			c.mu.Unlock()
			for range 2 * attrsShare {
				store.skip(1) // else comparisons are left out
				time.Sleep(2 * time.Second)
			}
			select {
			case <-told:
			default:
				t.Fatalf("the labels of %s are wrong, which nobody has found", right.row.Key)
			}
			list := mustList(t, c, testPrefix, selecting(t, "", "app=a", ""))
			if len(list.Rows) != fewRows {
				t.Errorf("%d rows have the label after that", len(list.Rows))
			}
		}
		c.Stop()
	})
}
