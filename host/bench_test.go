package host_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

func BenchmarkCall(b *testing.B) {
	object := doc(b, `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"spec":{"replicas":5,"text":"x"}}`)
	meta, err := host.NewMeta(abi.Meta{UID: "u", Time: "2026-01-02T03:04:05Z"})
	if err != nil {
		b.Fatal(err)
	}
	for _, bc := range []struct {
		name string
		wasm func() []byte
		op   abi.Op
	}{
		{"query", func() []byte { return hosttest.Asker("spec.text") }, abi.OpValidateCreate},
		{"echo", func() []byte { return hosttest.Echo("echo") }, abi.OpPrepareForCreate},
		{"go", func() []byte { return hosttest.BuildGo(b, "hosttest/testdata/goguest") }, abi.OpValidateCreate},
	} {
		b.Run(bc.name, func(b *testing.B) {
			rt := newRuntime(b, host.Config{CacheDir: b.TempDir()})
			m := load(b, rt, bc.wasm(), host.ModuleConfig{Settings: []byte(`{"Limit":10}`)})
			call := &host.Call{Op: bc.op, Meta: meta, Object: object}
			var fuel uint64
			b.ReportAllocs()
			for b.Loop() {
				res, err := m.Call(b.Context(), call)
				if err != nil {
					b.Fatal(err)
				}
				fuel = res.Fuel
			}
			b.ReportMetric(float64(fuel), "fuel/op")
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	wasm := hosttest.BuildGo(b, "hosttest/testdata/goguest")
	rt := newRuntime(b, host.Config{CacheDir: b.TempDir()})
	for b.Loop() {
		m := load(b, rt, wasm, host.ModuleConfig{Settings: []byte(`{"Limit":10}`)})
		if err := m.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCollection is a garbage collection while guests spin on every
// processor. It reports the longest that one took to stop the world.
func BenchmarkCollection(b *testing.B) {
	for _, spinners := range []int{0, 1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprint(spinners, " spinning"), func(b *testing.B) {
			rt := newRuntime(b, host.Config{Guests: max(1, spinners), Limits: host.Limits{Fuel: 1 << 50, Timeout: time.Hour}})
			g := hosttest.NewGuest("spin", abi.OpValidateCreate)
			m := load(b, rt, g.Finish(hosttest.Code(nil).Loop(hosttest.Code(nil).Br(0))), host.ModuleConfig{Warm: []*host.Call{}})
			ctx, cancel := context.WithCancel(b.Context())
			stopped := make(chan error, spinners)
			for range spinners {
				go func() {
					_, err := m.Call(ctx, &host.Call{Op: abi.OpValidateCreate})
					stopped <- err
				}()
			}
			before := stops()
			for b.Loop() {
				runtime.GC()
			}
			after := stops()
			cancel()
			for range spinners {
				if class, _ := host.ClassOf(<-stopped); class != host.ClassDeadline {
					b.Errorf("class %v", class)
				}
			}
			longest := 0.0
			for i, n := range after.Counts {
				if n > before.Counts[i] && !math.IsInf(after.Buckets[i+1], 1) {
					longest = after.Buckets[i+1]
				}
			}
			b.ReportMetric(longest*1e3, "longest-stop-ms")
		})
	}
}

// stops are how long the collector has taken to stop the world.
func stops() *metrics.Float64Histogram {
	samples := []metrics.Sample{{Name: "/sched/pauses/stopping/gc:seconds"}}
	metrics.Read(samples)
	h := samples[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: append([]uint64(nil), h.Counts...), Buckets: h.Buckets}
}

// TestAllocations: a call allocates its result and what a guest
// writes, and nothing for what is queried or put back.
func TestAllocations(t *testing.T) {
	object := doc(t, `{"metadata":{"name":"a"},"spec":{"replicas":5,"text":"x"}}`)
	meta, err := host.NewMeta(abi.Meta{UID: "u", Time: "2026-01-02T03:04:05Z"})
	if err != nil {
		t.Fatal(err)
	}
	queries := hosttest.NewGuest("queries", abi.OpValidateCreate)
	at, n := queries.Text("spec.text")
	var five hosttest.Code
	for range 5 {
		five = five.I32Const(int32(abi.SlotObject)).I32Const(at).I32Const(n).I32Const(40 << 10).I32Const(100).Call(queries.Query).Drop()
	}
	tests := []struct {
		name   string
		wasm   []byte
		op     abi.Op
		allocs float64
	}{
		{"nothing", hosttest.NewGuest("idle", abi.OpValidateCreate).Finish(nil), abi.OpValidateCreate, 1},
		{"five queries", queries.Finish(five), abi.OpValidateCreate, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			rt := newRuntime(t, host.Config{})
			m := load(t, rt, tc.wasm, host.ModuleConfig{})
			call := &host.Call{Op: tc.op, Meta: meta, Object: object}
			allocs := testing.AllocsPerRun(200, func() {
				if _, err := m.Call(context.Background(), call); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != tc.allocs {
				t.Errorf("%v allocations, want %v", allocs, tc.allocs)
			}
		})
	}
}
