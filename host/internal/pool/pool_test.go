package pool

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

type item struct {
	busy, freed atomic.Bool
}

func newPool(limit int) (*Pool[*item], *atomic.Int64) {
	var alive atomic.Int64
	return New(limit, func(context.Context) (*item, error) {
		alive.Add(1)
		return &item{}, nil
	}, func(i *item) {
		if i.freed.Swap(true) {
			panic("freed twice")
		}
		alive.Add(-1)
	}), &alive
}

func TestPoolReusesTheLastOne(t *testing.T) {
	p, alive := newPool(3)
	a, _ := p.Get(t.Context())
	b, _ := p.Get(t.Context())
	p.Put(a)
	p.Put(b)
	if got, _ := p.Get(t.Context()); got != b {
		t.Error("not the one used last")
	}
	p.Discard(b)
	if alive.Load() != 1 || p.Stats().Idle != 1 {
		t.Errorf("%d alive, %d idle", alive.Load(), p.Stats().Idle)
	}
	p.Close()
	if alive.Load() != 0 {
		t.Errorf("%d alive after Close", alive.Load())
	}
}

func TestPoolCounts(t *testing.T) {
	fail := errors.New("no")
	failing := false
	p := New(2, func(context.Context) (int, error) {
		if failing {
			return 0, fail
		}
		return 0, nil
	}, func(int) {})
	check := func(want Stats) {
		t.Helper()
		if got := p.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	get := func() {
		t.Helper()
		if _, err := p.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	get()
	get()
	check(Stats{Lent: 2, Counts: Counts{Made: 2}})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Get(cancelled); err == nil {
		t.Error("a third of two")
	}
	check(Stats{Lent: 2, Counts: Counts{Made: 2, Waits: 1}})
	p.Put(0)
	check(Stats{Idle: 1, Lent: 1, Counts: Counts{Made: 2, Waits: 1}})
	p.Discard(0)
	check(Stats{Idle: 1, Counts: Counts{Made: 2, Waits: 1, Discarded: 1}})
	get()
	failing = true
	if _, err := p.Get(t.Context()); !errors.Is(err, fail) {
		t.Error(err)
	}
	check(Stats{Lent: 1, Counts: Counts{Made: 2, Waits: 1, Discarded: 1}})
	p.Put(0)
	p.Trim(0)
	p.Trim(0)
	check(Stats{Counts: Counts{Made: 2, Waits: 1, Discarded: 1, Trimmed: 1}})
	p.Close()
	sum := p.Stats().Counts
	sum.Add(Counts{1, 2, 3, 4})
	if sum != (Counts{3, 3, 4, 5}) {
		t.Errorf("the sum is %+v", sum)
	}
}

// Trim disposes of what was idle since the last time, and of nothing else.
func TestPoolTrims(t *testing.T) {
	p, alive := newPool(5)
	take := func(n int) (items []*item) {
		for range n {
			i, err := p.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, i)
		}
		return items
	}
	put := func(items []*item) {
		for _, i := range items {
			p.Put(i)
		}
	}
	trim := func(keep, left int, want int64) {
		t.Helper()
		if got := p.Trim(keep); got != left || alive.Load() != want {
			t.Fatalf("%d left beyond %d, %d alive; want %d and %d", got, keep, alive.Load(), left, want)
		}
	}
	all := take(5)
	put(all)
	trim(1, 4, 5) // they were used since there was no Trim before
	hot := take(2)
	if hot[0] != all[4] || hot[1] != all[3] {
		t.Fatal("not those used last")
	}
	put(hot)
	trim(1, 1, 2)
	if all[3].freed.Load() || all[4].freed.Load() {
		t.Fatal("those used last were trimmed")
	}
	put(take(1))
	trim(1, 0, 1)
	if all[3].freed.Load() {
		t.Fatal("the one used last was trimmed")
	}
	trim(1, 0, 1) // never below what is to be kept
	trim(0, 0, 0)

	all = take(3)
	put(all[1:])
	trim(1, 2, 3)
	trim(1, 0, 1) // the lent one is enough
	if all[0].freed.Load() {
		t.Fatal("a lent item was trimmed")
	}
	put(all[:1])
	p.Close()
	if p.Trim(0) != 0 || alive.Load() != 0 {
		t.Errorf("%d alive after Close", alive.Load())
	}
}

// While items are trimmed there are no more than the limit, and Close waits
// for them.
func TestPoolTrimsWithinTheLimit(t *testing.T) {
	freeing, goOn := make(chan struct{}), make(chan struct{})
	var alive atomic.Int64
	p := New(1, func(context.Context) (int64, error) { return alive.Add(1), nil }, func(int64) {
		freeing <- struct{}{}
		<-goOn
		alive.Add(-1)
	})
	i, _ := p.Get(t.Context())
	p.Put(i)
	p.Trim(0)
	var others sync.WaitGroup
	others.Go(func() { p.Trim(0) })
	<-freeing
	if _, ok := p.TryGet(); ok {
		t.Error("an item was lent while it was disposed of")
	}
	others.Go(func() {
		if i, err := p.Get(t.Context()); err != nil || i != 1 {
			t.Errorf("%d items at a time, %v", i, err)
		} else {
			p.Put(i)
		}
	})
	for waiting := 0; waiting == 0; runtime.Gosched() {
		p.mu.Lock()
		waiting = len(p.waiting)
		p.mu.Unlock()
	}
	goOn <- struct{}{}
	others.Wait()

	p.Trim(0)
	others.Go(func() { p.Trim(0) })
	<-freeing
	closed := make(chan struct{})
	others.Go(func() { p.Close(); close(closed) })
	for isClosed := false; !isClosed; runtime.Gosched() {
		p.mu.Lock()
		isClosed = p.closed
		p.mu.Unlock()
	}
	select {
	case <-closed:
		t.Error("closed while an item was disposed of")
	default:
	}
	goOn <- struct{}{}
	others.Wait()
	if alive.Load() != 0 {
		t.Errorf("%d alive after Close", alive.Load())
	}
}

func TestPoolWaits(t *testing.T) {
	p, _ := newPool(1)
	a, _ := p.Get(t.Context())
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Get(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a full pool: %v", err)
	}
	got := make(chan *item)
	go func() {
		i, _ := p.Get(t.Context())
		got <- i
	}()
	p.Put(a)
	if <-got != a {
		t.Error("not the one that was put back")
	}
	waiting := make(chan error)
	go func() {
		_, err := p.Get(t.Context())
		waiting <- err
	}()
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("waiting for a closed pool: %v", err)
	}
	p.Put(a)
	<-closed
	if _, err := p.Get(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed pool: %v", err)
	}
}

func TestPoolGivesSlotBackWhenMakingFails(t *testing.T) {
	fail := errors.New("no")
	p := New(1, func(context.Context) (int, error) { return 0, fail }, func(int) {})
	for range 3 {
		if _, err := p.Get(t.Context()); !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	p.Close()
}

func TestPoolHammer(t *testing.T) {
	p, alive := newPool(4)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range 500 {
				i, err := p.Get(context.Background())
				if errors.Is(err, ErrClosed) {
					return
				}
				if i.busy.Swap(true) || i.freed.Load() {
					t.Error("lent twice or after it was freed")
				}
				if alive.Load() > 4 {
					t.Error("too many")
				}
				i.busy.Store(false)
				if (n+w)%10 == 0 {
					p.Discard(i)
				} else {
					p.Put(i)
				}
				if (n+w)%7 == 0 {
					p.Trim(w % 3)
				}
				if w == 0 && n == 400 {
					wg.Go(p.Close)
				}
			}
		})
	}
	wg.Wait()
	if alive.Load() != 0 {
		t.Errorf("%d alive", alive.Load())
	}
}

// Who waits is served before who comes later, and gives up its turn if its
// context ends.
func TestPoolServesInOrder(t *testing.T) {
	p, alive := newPool(1)
	a, _ := p.Get(t.Context())
	if _, ok := p.TryGet(); ok {
		t.Error("lent twice")
	}
	const n = 8
	var order []int
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			item, err := p.Get(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, i) // the item is what guards it
			p.Discard(item)
		})
		for waiting := 0; waiting <= i; runtime.Gosched() {
			p.mu.Lock()
			waiting = len(p.waiting)
			p.mu.Unlock()
		}
	}
	p.Put(a)
	all.Wait()
	if !slices.IsSorted(order) || len(order) != n {
		t.Errorf("served in the order %v", order)
	}
	p.Close()
	if alive.Load() != 0 {
		t.Errorf("%d alive after Close", alive.Load())
	}
}
