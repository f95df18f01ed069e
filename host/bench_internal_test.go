package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/sdk/build"
)

// benchObject is a Deployment of about some bytes.
func benchObject(tb testing.TB, size int) *document.Document {
	tb.Helper()
	const container = `{"image":"registry.example/web:1.%d","name":"c%d","imagePullPolicy":"IfNotPresent","env":[{"name":"MODE","value":"production"},{"name":"REGION","value":"eu"}],"ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}`
	var containers []string
	for i := range max(1, (size-700)/len(container)) {
		containers = append(containers, fmt.Sprintf(container, i, i))
	}
	d, err := document.Parse(fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"note":%q},"labels":{"app":"web","tier":"front"},"name":"web","namespace":"shop","uid":"6f3d7f5e-98a5-4c6a-9a55-5d9d9e3f0a11"},"spec":{"progressDeadlineSeconds":600,"replicas":3,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},"strategy":{"rollingUpdate":{"maxSurge":"25%%","maxUnavailable":"25%%"},"type":"RollingUpdate"},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[%s],"dnsPolicy":"ClusterFirst","restartPolicy":"Always"}}}}`,
		strings.Repeat("n", 100), strings.Join(containers, ",")))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// fiveGuest builds the guest of a language that asks for five fields in
// validateCreate and decodes the object in warningsOnCreate.
func fiveGuest(tb testing.TB, language build.Language) []byte {
	tb.Helper()
	if missing := build.Missing(tb.Context(), language); missing != nil {
		lacks(tb, missing)
	}
	file := filepath.Join(tb.TempDir(), "five.wasm")
	dir := filepath.Join("hosttest/testdata/five", string(language))
	if err := build.Guest(tb.Context(), build.Config{Dir: dir, Output: file, Log: tb.Output()}); err != nil {
		tb.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}

// freeFuel stands for the fuel of a guest that has none: only imports take from
// it.
type freeFuel struct {
	api.MutableGlobal
	left uint64
}

func (f *freeFuel) Get() uint64     { return f.left }
func (f *freeFuel) Set(left uint64) { f.left = left }

// noFlag stands for what the rewriter would have the guest note.
type noFlag struct{ api.MutableGlobal }

func (noFlag) Get() uint64 { return 0 }

// bareArtefact is the original module, on the engine with nothing but the
// imports.
func bareArtefact(tb testing.TB, rt *Runtime, wasm []byte) *artefact {
	tb.Helper()
	limits := rt.config.Limits
	mod, err := rewrite.Rewrite(wasm, rewrite.Options{Import: importGate(rt.imports), MemoryPages: limits.pages(), Depth: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	mod.Bytes = wasm
	a := &artefact{host: rt, limits: limits, digest: Digest(wasm)}
	if err := a.compileIn(tb.Context(), mod, ""); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(a.closeEngine)
	return a
}

// bareGuest is a guest of the original module. It is never put back.
func bareGuest(tb testing.TB, a *artefact) *guest {
	tb.Helper()
	instance, err := a.engine.InstantiateModule(tb.Context(), a.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		tb.Fatal(err)
	}
	return &guest{
		artefact: a, instance: instance, paths: map[string]queryPath{}, fuel: &freeFuel{}, flag: noFlag{},
		memory: instance.ExportedMemory(abi.ExportMemory),
		invoke: instance.ExportedFunction(abi.ExportInvoke), describe: instance.ExportedFunction(abi.ExportDescribe),
	}
}

// meteredGuest is a guest of the rewritten module that is never put back, with
// a memory like that of a bare one: reused guests take ever more memory.
func meteredGuest(tb testing.TB, m *Module) *guest {
	tb.Helper()
	instance, err := m.artefact.engine.InstantiateModule(tb.Context(), m.artefact.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		tb.Fatal(err)
	}
	g := &guest{
		artefact: m.artefact, instance: instance, paths: map[string]queryPath{},
		memory: instance.ExportedMemory(abi.ExportMemory), invoke: instance.ExportedFunction(abi.ExportInvoke),
	}
	var ok bool
	if g.fuel, ok = instance.ExportedGlobal(rewrite.ExportFuel).(api.MutableGlobal); !ok {
		tb.Fatal("no fuel")
	}
	tb.Cleanup(g.close)
	return g
}

// reused returns a call of a guest with nothing around it.
func reused(tb testing.TB, m *Module, g *guest, call *Call) func() {
	tb.Helper()
	c := m.invocation(context.Background(), call, nil)
	c.guest = g
	if fn := g.instance.ExportedFunction(abi.ExportInitialize); fn != nil {
		g.fuel.Set(1 << 60)
		if _, err := fn.Call(c); err != nil {
			tb.Fatal(err)
		}
	}
	return func() {
		g.fuel.Set(1 << 60)
		c.outputs = [len(c.outputs)]output{}
		g.stack[0] = uint64(call.Op)
		if err := g.invoke.CallWithStack(c, g.stack[:]); err != nil || g.stack[0] != 0 {
			tb.Fatal(err, g.stack[0])
		}
	}
}

// quarter is the time below which a quarter of the blocks of calls stayed, for
// one call: others who use the processor disturb few of them.
func quarter(blocks []time.Duration, calls int) float64 {
	slices.Sort(blocks)
	return float64(blocks[len(blocks)/4].Nanoseconds()) / float64(calls)
}

// BenchmarkIsolation measures one call of a guest, in turns: an empty function
// of the engine (floor), the guest on the bare engine, the rewritten guest that
// is not put back (metered), and [Module.Call] (isolated). All in nanoseconds,
// with how many times the bare and the metered guest's time the isolated call
// takes, and the rewritten guest the bare one's (slower).
func BenchmarkIsolation(b *testing.B) {
	meta, err := NewMeta(abi.Meta{UID: "u", Time: "2026-01-02T03:04:05Z"})
	if err != nil {
		b.Fatal(err)
	}
	for _, language := range []build.Language{build.C, build.Rust, build.Go} {
		rt, err := NewRuntime(Config{})
		if err != nil {
			b.Fatal(err)
		}
		var wasm []byte
		for _, op := range []abi.Op{abi.OpValidateCreate, abi.OpWarningsOnCreate} {
			for _, size := range []int{2 << 10, 20 << 10} {
				what := "five fields"
				if op == abi.OpWarningsOnCreate {
					what = "all of it"
				}
				b.Run(fmt.Sprintf("%s/%s/%d KiB", language, what, size>>10), func(b *testing.B) {
					if wasm == nil {
						wasm = fiveGuest(b, language)
					}
					m, err := rt.Load(b.Context(), wasm, ModuleConfig{Name: "five"})
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() {
						if err := m.Close(context.Background()); err != nil {
							b.Error(err)
						}
					})
					benchIsolation(b, m, bareGuest(b, bareArtefact(b, rt, wasm)), &Call{Op: op, Meta: meta, Object: benchObject(b, size)})
				})
			}
		}
		if err := rt.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchIsolation(b *testing.B, m *Module, bare *guest, call *Call) {
	metered := meteredGuest(b, m)
	marker, stack := metered.instance.ExportedFunction(abi.ExportMarker), make([]uint64, 1)
	var fuel uint64
	var restored int
	modes := []func(){
		func() { _ = marker.CallWithStack(context.Background(), stack) },
		reused(b, m, bare, call),
		reused(b, m, metered, call),
		func() {
			res, err := m.Call(context.Background(), call)
			if err != nil || len(res.Errors) > 0 || len(res.Warnings) > 0 {
				b.Fatal(res, err)
			}
			fuel, restored = res.Fuel, res.RestoredBytes
		},
	}
	calls := 96 // what many calls share is part of each block
	if call.Op == abi.OpWarningsOnCreate {
		calls = 1
	}
	var blocks [4][]time.Duration
	b.ReportAllocs()
	for b.Loop() {
		for i, f := range modes {
			start := time.Now()
			for range calls {
				f()
			}
			blocks[i] = append(blocks[i], time.Since(start))
		}
	}
	var times [4]float64
	for i := range blocks {
		times[i] = quarter(blocks[i], calls)
	}
	b.ReportMetric(0, "ns/op")
	for i, unit := range []string{"floor-ns", "bare-ns", "metered-ns", "isolated-ns"} {
		b.ReportMetric(times[i], unit)
	}
	b.ReportMetric(times[3]/times[1], "x-bare")
	b.ReportMetric(times[2]/times[1], "slower")
	b.ReportMetric(float64(fuel), "fuel")
	b.ReportMetric(float64(restored), "restored-B")
	b.ReportMetric(testing.AllocsPerRun(50, modes[3]), "allocs-isolated")
}
