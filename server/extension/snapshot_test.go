package extension_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/rest"
)

// closableGuest fails the test when it is called after it was closed, or closed twice.
type closableGuest struct {
	fakeGuest
	t      *testing.T
	closed atomic.Bool
}

func (g *closableGuest) Handles(abi.Op) bool { return true }

func (g *closableGuest) Call(context.Context, *host.Call) (*host.Result, error) {
	if g.closed.Load() {
		g.t.Error("a closed module was called")
	}
	return &host.Result{}, nil
}

func (g *closableGuest) Close(context.Context) error {
	if g.closed.Swap(true) {
		g.t.Error("a module was closed twice")
	}
	return nil
}

func newSnapshot(t *testing.T, generation uint64, modules ...*extension.SharedModule) *extension.Snapshot {
	t.Helper()
	s, err := extension.NewSnapshot(extension.SnapshotConfig{
		Resources:  []*rest.Resource{{Group: "g", Name: "b"}, {Group: "", Name: "c"}, {Group: "g", Name: "a"}},
		Generation: generation,
		Modules:    modules,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshot(t *testing.T) {
	s := newSnapshot(t, 7)
	var names string
	for _, r := range s.Resources() {
		names += r.Group + "/" + r.Name + " "
	}
	if names != "/c g/a g/b " {
		t.Error(names)
	}
	if s.Resource("g", "a") == nil || s.Resource("", "a") != nil || s.Generation() != 7 {
		t.Error("lookup")
	}
	if _, err := extension.NewSnapshot(extension.SnapshotConfig{Resources: []*rest.Resource{{Name: "x"}, {Name: "x"}}}); err == nil {
		t.Error("a resource twice must be refused")
	}
}

func TestHolderKeepsModulesWhileTheyAreUsed(t *testing.T) {
	guest := &closableGuest{t: t}
	module := extension.NewSharedModule(guest, nil)
	holder := extension.NewHolder(newSnapshot(t, 1, module))
	module.Release() // the loader's

	first, release := holder.Acquire()
	replaced := holder.Publish(newSnapshot(t, 2))
	if replaced != first {
		t.Fatal("another snapshot was replaced")
	}
	if guest.closed.Load() {
		t.Fatal("closed while a request uses it")
	}
	second, releaseSecond := holder.Acquire()
	if second.Generation() != 2 {
		t.Error("the new snapshot is not in force")
	}
	releaseSecond()
	release()
	<-replaced.Drained()
	if !guest.closed.Load() {
		t.Error("not closed with its last user")
	}
	if _, err := extension.NewSnapshot(extension.SnapshotConfig{Modules: []*extension.SharedModule{module}}); err == nil {
		t.Error("a closed module must be refused")
	}
}

// TestHolderHammer swaps snapshots, two modules each, of which one is shared with the next,
// under requests that call both.
func TestHolderHammer(t *testing.T) {
	const swaps, readers = 300, 8
	var guests []*closableGuest
	newModule := func() *extension.SharedModule {
		g := &closableGuest{t: t}
		guests = append(guests, g)
		return extension.NewSharedModule(g, nil)
	}
	type generation struct{ modules []*extension.SharedModule }
	var generations sync.Map // uint64 → generation
	publish := func(n uint64, modules ...*extension.SharedModule) *extension.Snapshot {
		generations.Store(n, generation{modules})
		return newSnapshot(t, n, modules...)
	}
	older, newer := newModule(), newModule()
	holder := extension.NewHolder(publish(0, older, newer))

	stop := make(chan struct{})
	var wg sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	for range readers {
		wg.Go(func() {
			last := uint64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, release := holder.Acquire()
				if s.Generation() < last {
					t.Error("a generation came back")
				}
				last = s.Generation()
				v, _ := generations.Load(last)
				for _, m := range v.(generation).modules {
					if _, err := extension.NewModuleLayer(m, "").Validate(t.Context(), parse(t, `{}`)); err != nil {
						t.Error(err)
					}
				}
				release()
			}
		})
	}
	var replaced []*extension.Snapshot
	for n := range uint64(swaps) {
		next := newModule()
		replaced = append(replaced, holder.Publish(publish(n+1, newer, next)))
		older.Release() // the loader needs it no more
		older, newer = newer, next
	}
	end()
	for _, s := range replaced {
		<-s.Drained()
	}
	open := 0
	for _, g := range guests {
		if !g.closed.Load() {
			open++
		}
	}
	if open != 2 {
		t.Errorf("%d modules are open, want the 2 in force", open)
	}
}

func ExampleHolder() {
	first, _ := extension.NewSnapshot(extension.SnapshotConfig{Generation: 1})
	second, _ := extension.NewSnapshot(extension.SnapshotConfig{Generation: 2})
	holder := extension.NewHolder(first)
	pinned, release := holder.Acquire()
	holder.Publish(second)
	fmt.Println(pinned.Generation(), holder.Generation())
	release()
	<-first.Drained()
	// Output: 1 2
}
