package host_test

import (
	"testing"

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
