package hosttest_test

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

var swaps = flag.Int("swaps", 200, "how often TestSwaps replaces a module")

// A footprint is what a process holds.
type footprint struct {
	mappings, descriptors, goroutines int
	heap, resident                    int // bytes
}

// footprintNow collects all garbage first.
func footprintNow(t *testing.T) footprint {
	t.Helper()
	runtime.GC() // finds what has finalizers
	runtime.GC() // finds what they held
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	f := footprint{goroutines: runtime.NumGoroutine(), heap: int(stats.HeapAlloc)}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		f.mappings = bytes.Count(maps, []byte{'\n'})
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.descriptors = len(fds)
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range bytes.Lines(status) {
			if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "RssAnon:" {
				kib, err := strconv.Atoi(string(fields[1]))
				if err != nil {
					t.Fatal(err)
				}
				f.resident = kib << 10
			}
		}
	}
	return f
}

// TestSwaps replaces a module again and again under load, each time by one of
// another digest, and looks at what is left behind: no goroutine, descriptor
// or mapping, and no memory. `make swaps` does it 10,000 times, with Go guests
// among them.
func TestSwaps(t *testing.T) {
	cache := t.TempDir()
	const cacheBytes = 2 << 20
	config := host.Config{Guests: 2}
	if *swaps <= 1000 { // else the Go guests are to stay in it
		config.CacheDir, config.CacheBytes = cache, cacheBytes
	} else {
		config.CacheDir, config.CacheBytes = cache, cacheBytes+64<<20
	}
	rt := newRuntime(t, config)
	images := [][]byte{hosttest.Keeper(), hosttest.TableKeeper(), hosttest.Keeper()}
	var goGuest []byte
	if *swaps > 1000 {
		goGuest = hosttest.BuildGo(t, "testdata/goguest")
	}
	var current atomic.Pointer[host.Module]
	swap := func(i int) {
		wasm := images[i%len(images)]
		if goGuest != nil && i%100 == 99 {
			wasm = goGuest
		}
		m, err := rt.Load(t.Context(), hosttest.Unique(wasm, i), host.ModuleConfig{
			Name: "swapped", Settings: []byte(`{"Limit":3}`), Warm: []*host.Call{},
			// Other code, too, than that of those before.
			Limits: host.Limits{Depth: 1500 + i%400},
		})
		if err != nil {
			t.Fatal(err)
		}
		if old := current.Swap(m); old != nil {
			if err := old.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	swap(0)
	stop := make(chan struct{})
	var calls atomic.Int64
	var pause sync.RWMutex // nobody calls while it is held: what a call allocates is not left behind
	var callers sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); callers.Wait() })
	defer end()
	for range 2 {
		callers.Go(func() { callUntil(t, stop, &pause, &current, &calls) })
	}
	look := func() footprint {
		pause.Lock()
		defer pause.Unlock()
		return footprintNow(t)
	}
	warm := *swaps / 3
	for i := range warm {
		swap(i + 1)
	}
	before := look()
	for i := range *swaps - warm {
		swap(warm + i + 1)
	}
	after := look()
	end()
	t.Logf("%d swaps, %d calls: %+v, then %+v", *swaps, calls.Load(), before, after)
	if calls.Load() == 0 {
		t.Error("no calls")
	}
	const slack = 8
	if after.goroutines > before.goroutines+slack || after.descriptors > before.descriptors+slack || after.mappings > before.mappings+4*slack {
		t.Errorf("%+v has become %+v", before, after)
	}
	if after.heap > before.heap+4<<20 || after.resident > before.resident+16<<20 {
		t.Errorf("%+v has become %+v", before, after)
	}
	var size int64
	err := filepath.WalkDir(cache, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size > config.CacheBytes {
		t.Errorf("the cache has %d bytes, at most %d are allowed: %v", size, config.CacheBytes, err)
	}
	if err := current.Load().Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// callUntil calls what is current. No call that has begun before it was closed may fail.
func callUntil(t *testing.T, stop <-chan struct{}, pause *sync.RWMutex, current *atomic.Pointer[host.Module], calls *atomic.Int64) {
	object, err := document.Parse([]byte(`{"metadata":{"name":"a"},"spec":{"replicas":1}}`))
	if err != nil {
		t.Error(err)
		return
	}
	meta, err := host.NewMeta(abi.Meta{UID: "u", Time: "2026-01-02T03:04:05Z"})
	if err != nil {
		t.Error(err)
		return
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		pause.RLock()
		m := current.Load()
		_, err := m.Call(context.Background(), &host.Call{Op: abi.OpValidateCreate, Meta: meta, Object: object})
		pause.RUnlock()
		if class, _ := host.ClassOf(err); class == host.ClassNotReady && current.Load() != m {
			continue // it was replaced, and closed, just now
		}
		if err != nil {
			t.Error(err)
			return
		}
		if calls.Add(1)%100 == 0 {
			// Who loads is to get its turn now, not after the ten milliseconds
			// that the scheduler leaves those who never wait: it waits some
			// thirty times for each load.
			runtime.Gosched()
		}
	}
}
