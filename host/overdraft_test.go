package host

import (
	"bytes"
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/host/internal/wasmtest"
)

// TestOverdraft: however a guest is built, it does little between two tests of
// its fuel, and what it has used is exact.
func TestOverdraft(t *testing.T) {
	type code = wasmtest.Code
	const (
		depth  = 80
		bound  = 10_000        // between two tests, in one function
		deep   = depth * bound // on the way back
		add    = 0x6a
		length = 100_000
	)
	// straight are n pairs of instructions that do nothing.
	straight := func(n int) code { return bytes.Repeat(code(nil).I32Const(1).Drop(), n) }
	times := func(n int, c code) code { return bytes.Repeat(c, n) }
	tests := []struct {
		name  string
		build func(b *wasmtest.Builder, void uint32) code // of run
		fuel  int64
		most  int64 // overdraft
	}{
		{"straight", func(*wasmtest.Builder, uint32) code { return straight(length) }, 2 * length, bound},
		{"calls of a leaf", func(b *wasmtest.Builder, void uint32) code {
			leaf := b.Func("", void, "", straight(900))
			return times(1000, code(nil).Call(leaf))
		}, 1000 * 1801, bound},
		{"a tree without loops", func(b *wasmtest.Builder, void uint32) code {
			f := b.Func("", void, "", straight(5))
			for range 16 {
				f = b.Func("", void, "", code(nil).Call(f).Call(f))
			}
			return code(nil).Call(f)
		}, 1<<16*10 + 2*(1<<16-1) + 1, bound},
		{"indirect calls of a leaf", func(b *wasmtest.Builder, void uint32) code {
			leaf := b.Func("", void, "", straight(900))
			b.Table(1, 1)
			b.Elements(0, leaf)
			return times(1000, code(nil).I32Const(0).Op(0x11, byte(void), 0))
		}, 1000 * 1802, bound},
		{"a leaf in a loop", func(b *wasmtest.Builder, void uint32) code {
			leaf := b.Func("", void, "", straight(10))
			return code(nil).I32Const(10_000).LocalSet(0).Loop(code(nil).
				Call(leaf).LocalGet(0).I32Const(-1).Op(add).LocalTee(0).BrIf(0))
		}, 2 + 10_000*(1+20+5), bound},
		{"loops in loops", func(*wasmtest.Builder, uint32) code {
			down := func(local uint32) code { return code(nil).LocalGet(local).I32Const(-1).Op(add).LocalTee(local).BrIf(0) }
			inner := append(code(nil).I32Const(100).LocalSet(1), code(nil).Loop(down(1))...)
			return code(nil).I32Const(100).LocalSet(0).Loop(append(inner, down(0)...))
		}, 2 + 100*(2+100*5+5), bound},
		{"functions that call each other", func(b *wasmtest.Builder, void uint32) code {
			first := b.Next()
			b.Func("", void, "", code(nil).GlobalGet(0).If(code(nil).GlobalGet(0).I32Const(-1).Op(add).GlobalSet(0).Call(first+1)))
			b.Func("", void, "", code(nil).Call(first))
			return code(nil).I32Const(depth / 2).GlobalSet(0).Call(first)
		}, 3 + depth/2*(2+5+1) + 2, bound},
		{"long ways back", func(b *wasmtest.Builder, void uint32) code {
			self := b.Next()
			b.Func("", void, "", append(code(nil).GlobalGet(0).If(code(nil).GlobalGet(0).I32Const(-1).Op(add).GlobalSet(0).Call(self)), straight(5000)...))
			return code(nil).I32Const(depth).GlobalSet(0).Call(self)
		}, 3 + (depth+1)*(2+10_000) + depth*5, deep},
	}
	for _, interpreter := range []bool{false, true} {
		config := wazero.NewRuntimeConfig()
		if interpreter {
			config = wazero.NewRuntimeConfigInterpreter()
		}
		rt := wazero.NewRuntimeWithConfig(t.Context(), config)
		const slice = 1000
		var used, most int64
		host := rt.NewHostModuleBuilder(rewrite.ImportModule)
		host.NewFunctionBuilder().WithFunc(func(left int64) int64 {
			used += slice - left
			most = max(most, -left)
			return slice
		}).Export(rewrite.ImportRefill)
		if _, err := host.Instantiate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tc := range tests {
			t.Run(tc.name, func(t *testing.T) {
				var b wasmtest.Builder
				void := b.Type("", "")
				b.Memory(1)
				b.Global(0)
				b.Func("run", void, wasmtest.I32+wasmtest.I32, tc.build(&b, void))
				instance, err := rt.InstantiateWithConfig(t.Context(), rewriteFor(t, b.Bytes()).Bytes, wazero.NewModuleConfig().WithName(""))
				if err != nil {
					t.Fatal(err)
				}
				defer instance.Close(context.Background())
				fuel, ok := instance.ExportedGlobal(rewrite.ExportFuel).(api.MutableGlobal)
				if !ok {
					t.Fatal("no fuel")
				}
				used, most = 0, 0
				fuel.Set(slice)
				if _, err := instance.ExportedFunction("run").Call(t.Context()); err != nil {
					t.Fatal(err)
				}
				if used += slice - int64(fuel.Get()); used != tc.fuel {
					t.Errorf("%d units, want %d", used, tc.fuel)
				}
				if most > tc.most || tc.fuel > bound && most == 0 {
					t.Errorf("overdrawn by %d, at most %d are allowed", most, tc.most)
				}
			})
		}
		if err := rt.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
