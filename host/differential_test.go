package host

import (
	"context"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/host/internal/wasmtest"
)

// A plain engine for modules that import nothing but the rewriter's refill,
// which records what was used and always gives more.
type plainEngine struct {
	rt     wazero.Runtime
	slice  int64
	used   int64
	refill int
}

func newPlainEngine(t testing.TB) *plainEngine {
	t.Helper()
	e := &plainEngine{rt: wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2)), slice: 100}
	t.Cleanup(func() { _ = e.rt.Close(context.Background()) })
	b := e.rt.NewHostModuleBuilder(rewrite.ImportModule)
	b.NewFunctionBuilder().WithFunc(func(left int64) int64 {
		e.used += e.slice - left
		e.refill++
		return e.slice
	}).Export(rewrite.ImportRefill)
	if _, err := b.Instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func allowAll(string, string, rewrite.FuncType) error { return nil }

func rewriteFor(t testing.TB, wasm []byte) *rewrite.Module {
	t.Helper()
	m, err := rewrite.Rewrite(wasm, rewrite.Options{Import: allowAll, MemoryPages: 16, Depth: 100})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run calls "run" and describes what it gave and what it left in memory.
func run(t *testing.T, m api.Module, n uint64) (outcome string, trapped bool) {
	t.Helper()
	res, err := m.ExportedFunction("run").Call(t.Context(), n)
	mem, _ := m.Memory().Read(0, 256)
	return fmt.Sprint(res, err != nil, m.Memory().Size(), mem), err != nil
}

// TestRewrittenDoesTheSame compares modules with what the rewriter makes of
// them, and their fuel with what counting by hand gives.
func TestRewrittenDoesTheSame(t *testing.T) {
	type code = wasmtest.Code
	const (
		eqz, eq, ltU, add, sub = 0x45, 0x46, 0x49, 0x6a, 0x6b
		brTable, callIndirect  = 0x0e, 0x11
		pairOf                 = wasmtest.I32 + wasmtest.I32
	)
	tests := []struct {
		name string
		// build adds functions to b, the last being run(i32) i32 of type t
		// with three i32 locals, whose body it returns.
		build func(b *wasmtest.Builder, t uint32) code
		fuel  int64 // of run(5), if above zero
	}{
		{"straight", func(*wasmtest.Builder, uint32) code {
			return code(nil).LocalGet(0).I32Const(1).Op(add)
		}, 3},
		{"loop", func(*wasmtest.Builder, uint32) code {
			// 3 before, 4+4 a round: i--, sum+=i; br_if; 1 after
			return code(nil).LocalGet(0).Op(eqz).If(code(nil).I32Const(77).Return()).
				Loop(code(nil).
					LocalGet(1).LocalGet(0).Op(add).LocalSet(1).
					LocalGet(0).I32Const(1).Op(sub).LocalTee(0).BrIf(0)).
				LocalGet(1)
		}, 3 + 5*9 + 1},
		{"early return", func(b *wasmtest.Builder, typ uint32) code {
			f := b.Func("", typ, "", code(nil).LocalGet(0).I32Const(3).Op(ltU).If(code(nil).I32Const(9).Return()).LocalGet(0))
			return code(nil).Block(code(nil).Block(code(nil).
				LocalGet(0).Op(eqz).BrIf(1).
				LocalGet(0).Call(f).Return())).
				LocalGet(0).Call(f).I32Const(100).Op(add)
		}, 0},
		{"branch out of the function", func(b *wasmtest.Builder, typ uint32) code {
			f := b.Func("", typ, "", code(nil).LocalGet(0))
			return code(nil).Block(code(nil).
				LocalGet(0).Call(f).LocalGet(0).I32Const(2).Op(eq).BrIf(1).Drop()).
				Block(code(nil).LocalGet(0).I32Const(40).Op(add).Br(1)).
				I32Const(7)
		}, 0},
		{"br_table with the function's label", func(b *wasmtest.Builder, typ uint32) code {
			f := b.Func("", typ, "", code(nil).LocalGet(0).I32Const(10).Op(add))
			inner := code(nil).LocalGet(0).Call(f).LocalSet(1).
				LocalGet(1).LocalGet(0).Op(brTable, 2, 0, 2, 0)
			// Labels 0 and 2 take different numbers of values, so the block
			// yields one.
			return append(append(code(nil).Op(0x02, 0x7f).Op(0x02, 0x7f), inner...), code(nil).Op(0x0b, 0x0b).I32Const(5).Op(add)...)
		}, 0},
		{"multi-value", func(b *wasmtest.Builder, typ uint32) code {
			pair := b.Type(wasmtest.I32, pairOf)
			g := b.Func("", typ, "", code(nil).LocalGet(0))
			f := b.Func("", pair, "", code(nil).LocalGet(0).Call(g).LocalGet(0).I32Const(3).Op(eq).If(
				code(nil).I32Const(1).I32Const(2).Return()).I32Const(5))
			return code(nil).LocalGet(0).Call(f).Op(sub)
		}, 0},
		{"block with parameters", func(b *wasmtest.Builder, typ uint32) code {
			block := b.Type(wasmtest.I32, wasmtest.I32)
			return append(append(code(nil).LocalGet(0).Op(0x03, byte(block)), code(nil).
				I32Const(1).Op(add).LocalTee(1).LocalGet(1).I32Const(9).Op(ltU).BrIf(0)...), 0x0b)
		}, 0},
		{"dead code", func(b *wasmtest.Builder, typ uint32) code {
			f := b.Func("", typ, "", code(nil).LocalGet(0))
			return code(nil).Block(code(nil).Br(0).
				I32Const(1).Call(f).Drop().LocalGet(0).BrIf(0).Op(0xfc, 11, 0).MemoryGrow().Drop().
				If(code(nil).I32Const(1).MemoryGrow().Drop()).
				Loop(code(nil).Br(0))).
				LocalGet(0).Return().Op(add)
		}, 0},
		{"memory", func(*wasmtest.Builder, uint32) code {
			return code(nil).I32Const(2).MemoryGrow().LocalSet(1).
				LocalGet(0).I32Const(7).LocalGet(0).Op(0xfc, 11, 0).
				I32Const(100).I32Const(0).LocalGet(0).Op(0xfc, 10, 0, 0).
				LocalGet(0).I32Const(20).MemoryGrow().LocalGet(1).Op(add).Op(add)
		}, 17 + 2<<10},
		{"fill out of bounds", func(*wasmtest.Builder, uint32) code {
			return code(nil).I32Const(-1).I32Const(7).LocalGet(0).Op(0xfc, 11, 0).LocalGet(0)
		}, 0},
		{"call through a table", func(b *wasmtest.Builder, typ uint32) code {
			f := b.Func("", typ, "", code(nil).LocalGet(0).I32Const(10).Op(add))
			g := b.Func("", typ, "", code(nil).LocalGet(0).I32Const(20).Op(add))
			b.Table(3, 3)
			b.Elements(0, g, f, g)
			return code(nil).LocalGet(0).LocalGet(0).Op(callIndirect, byte(typ), 0)
		}, 0},
		{"recursion", func(b *wasmtest.Builder, typ uint32) code {
			self := b.Next()
			b.Func("", typ, "", code(nil).LocalGet(0).Op(eqz).If(code(nil).I32Const(0).Return()).
				LocalGet(0).I32Const(1).Op(sub).Call(self).LocalGet(0).Op(add))
			return code(nil).LocalGet(0).Call(self)
		}, 2 + 5*9 + 5},
		{"globals", func(b *wasmtest.Builder, _ uint32) code {
			g := b.Global(7)
			return code(nil).GlobalGet(g).LocalGet(0).Op(add).GlobalSet(g).GlobalGet(g)
		}, 5},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			b := &wasmtest.Builder{}
			typ := b.Type(wasmtest.I32, wasmtest.I32)
			b.BoundedMemory(1, 8)
			b.Data(0, "the first bytes")
			body := tc.build(b, typ)
			b.Func("run", typ, wasmtest.I32+wasmtest.I32+wasmtest.I32, body)
			b.Names()
			wasm := b.Bytes()
			e := newPlainEngine(t)
			for n := range uint64(12) {
				want, err := e.rt.InstantiateWithConfig(t.Context(), wasm, wazero.NewModuleConfig().WithName(""))
				if err != nil {
					t.Fatal(err)
				}
				e.used, e.refill = 0, 0
				mod := rewriteFor(t, wasm)
				got, err := e.rt.InstantiateWithConfig(t.Context(), mod.Bytes, wazero.NewModuleConfig().WithName(""))
				if err != nil {
					t.Fatal(err)
				}
				got.ExportedGlobal(rewrite.ExportFuel).(api.MutableGlobal).Set(uint64(e.slice))
				w, trapped := run(t, want, n)
				g, _ := run(t, got, n)
				if w != g {
					t.Errorf("run(%d):\n got %s\nwant %s", n, g, w)
				}
				if d := got.ExportedGlobal(rewrite.ExportDepth).Get(); d != 0 && !trapped {
					t.Errorf("run(%d) left a depth of %d", n, d)
				}
				used := e.used + e.slice - int64(got.ExportedGlobal(rewrite.ExportFuel).Get())
				if n == 5 && tc.fuel > 0 && used != tc.fuel {
					t.Errorf("run(5) used %d units, want %d", used, tc.fuel)
				}
			}
		})
	}
}
