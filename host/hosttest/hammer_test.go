package hosttest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

// TestHammer calls modules from many goroutines while they are replaced and
// closed, and guests that are idle are closed. No call of an acquired module may fail but those that trap, and no
// guest may remember another call.
func TestHammer(t *testing.T) {
	rt := newRuntime(t, host.Config{Guests: 3, IdleTimeout: 50 * time.Microsecond})
	load := func(wasm []byte) *host.Module {
		m, err := rt.Load(t.Context(), wasm, host.ModuleConfig{Name: "m", Warm: []*host.Call{}})
		if err != nil {
			t.Error(err)
		}
		return m
	}
	images := [][]byte{hosttest.Keeper(), hosttest.TableKeeper(), hosttest.SegmentKeeper()}
	var current atomic.Pointer[host.Module]
	current.Store(load(images[0]))

	plain, trap := doc(t, `{}`), doc(t, `{"trap":1}`)
	stop := make(chan struct{})
	var calls atomic.Int64
	var callers sync.WaitGroup
	for w := range 8 {
		callers.Go(func() {
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				m := current.Load()
				if !m.Acquire() {
					continue // it was replaced just now
				}
				object := plain
				if i%7 == 0 {
					object = trap
				}
				res, err := m.Call(context.Background(), &host.Call{Op: abi.OpValidateCreate, Object: object})
				m.Release()
				calls.Add(1)
				switch class, _ := host.ClassOf(err); {
				case object == trap && class == host.ClassTrap:
				case err != nil:
					t.Error(err)
					return
				case res.Warnings[0] != "0:0":
					t.Errorf("remembers %s", res.Warnings[0])
					return
				}
			}
		})
	}
	for i := 0; i < 60 || calls.Load() == 0 && !t.Failed(); i++ {
		next := load(images[i%len(images)])
		if next == nil {
			break
		}
		old := current.Swap(next)
		if err := old.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	callers.Wait()
	if err := current.Load().Close(t.Context()); err != nil {
		t.Error(err)
	}
}
