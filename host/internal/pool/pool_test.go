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
	if alive.Load() != 1 || p.Idle() != 1 {
		t.Errorf("%d alive, %d idle", alive.Load(), p.Idle())
	}
	p.Close()
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
