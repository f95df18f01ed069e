package etcd3_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	testclock "k8s.io/utils/clock/testing"

	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
)

const interval = time.Minute

func compactor(t *testing.T, client *clientv3.Client) (*etcd3.Compactor, *testclock.FakeClock) {
	t.Helper()
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	c, err := etcd3.StartCompactor(etcd3.CompactorConfig{Client: client, Interval: interval, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, clock
}

// step lets a compactor take one turn and waits until it has.
func step(t *testing.T, clock *testclock.FakeClock) {
	t.Helper()
	waitFor(t, clock.HasWaiters)
	clock.Step(interval)
	waitFor(t, clock.HasWaiters)
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("timed out")
		}
	}
}

func put(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	resp, err := client.Put(t.Context(), "k", "v")
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func wantReadable(t *testing.T, client *clientv3.Client, rev int64, readable bool) {
	t.Helper()
	_, err := client.Get(t.Context(), "k", clientv3.WithRev(rev))
	if (err == nil) != readable || (err != nil && !errors.Is(err, rpctypes.ErrCompacted)) {
		t.Errorf("revision %d: got error %v, want readable %t", rev, err, readable)
	}
}

// History is kept for one interval, then dropped.
func TestCompactor(t *testing.T) {
	client := etcd3test.New(t)
	c, clock := compactor(t, client)
	first := put(t, client)
	step(t, clock) // finds out where etcd is
	if c.Revision() != 0 {
		t.Errorf("compacted to %d at once", c.Revision())
	}
	wantReadable(t, client, first, true)
	second := put(t, client)
	step(t, clock)
	wantReadable(t, client, first, false)
	wantReadable(t, client, second, true)
	if c.Revision() < first || c.Revision() >= second {
		t.Errorf("compacted to %d, want from %d to below %d", c.Revision(), first, second)
	}
	step(t, clock)
	put(t, client)
	wantReadable(t, client, second, false)
	c.Close()
	c.Close()
}

// Of two compactors one works; the other knows what is compacted, and takes over.
func TestCompactorTakesOver(t *testing.T) {
	client := etcd3test.New(t)
	one, clockOne := compactor(t, client)
	two, clockTwo := compactor(t, client)
	put(t, client)
	step(t, clockOne)
	step(t, clockTwo) // sees that one was faster
	second := put(t, client)
	step(t, clockOne)
	third := put(t, client)
	step(t, clockTwo)
	if one.Revision() == 0 || one.Revision() != two.Revision() {
		t.Errorf("compacted to %d and %d, want the same", one.Revision(), two.Revision())
	}
	wantReadable(t, client, second, true)
	one.Close()
	step(t, clockTwo)
	wantReadable(t, client, second, false)
	if two.Revision() < third {
		t.Errorf("compacted to %d, want at least %d", two.Revision(), third)
	}
}

// An etcd that is full refuses the write by which compactors take turns; its history is dropped all the same.
func TestCompactorFull(t *testing.T) {
	s := newSmall(t) // it makes no room before its clock moves
	client := s.etcd.Client()
	c, clock := compactor(t, client)
	step(t, clock)
	old := put(t, client)
	_ = s.fill(func(i int) string { return fmt.Sprint("o", i) })
	step(t, clock)
	if c.Revision() == 0 || c.Revision() >= old {
		t.Errorf("compacted to %d, want from 1 to below %d", c.Revision(), old)
	}
	wantReadable(t, client, c.Revision()-1, false)
	wantReadable(t, client, old, true)
	// What somebody else has dropped is no failure.
	resp, err := client.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), resp.Header.Revision); err != nil {
		t.Fatal(err)
	}
	step(t, clock)
	if c.Revision() < resp.Header.Revision {
		t.Errorf("compacted to %d, want %d", c.Revision(), resp.Header.Revision)
	}
}

func TestCompactorConfig(t *testing.T) {
	for name, cfg := range map[string]etcd3.CompactorConfig{
		"no client":         {},
		"negative interval": {Client: clientv3.NewCtxClient(t.Context()), Interval: -1},
	} {
		if _, err := etcd3.StartCompactor(cfg); err == nil || !strings.Contains(err.Error(), "compactor") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}
