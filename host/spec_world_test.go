package host

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/host/internal/snapshot"
)

// specCounted are the assertions of the engine's specification tests. What is
// not compared is not to be had in binary form, or is about modules that the
// gate refuses.
var specCounted = specCount{
	"action":                      197,
	"assert_exhaustion":           30,
	"assert_invalid":              3124,
	"assert_malformed":            1380,
	"assert_return":               61360,
	"assert_trap":                 2845,
	"assert_uninstantiable":       12,
	"assert_unlinkable":           62,
	"module":                      2229,
	"no binary: assert_malformed": 1521,
	"other, for want of one that is refused: assert_return": 15,
	"refused assert_return":                                 147,
	"refused assert_trap":                                   21,
	"refused assert_uninstantiable: imports a global":       1,
	"refused assert_uninstantiable: imports a memory":       8,
	"refused assert_uninstantiable: imports a table":        7,
	"refused assert_unlinkable: imports a global":           39,
	"refused assert_unlinkable: imports a memory":           36,
	"refused assert_unlinkable: imports a table":            33,
	"refused module: imports a global":                      33,
	"refused module: imports a memory":                      50,
	"refused module: imports a table":                       67,
	"valid to the engine: assert_invalid":                   11,
	"valid to the engine: assert_uninstantiable":            8,
	"valid to the engine: assert_unlinkable":                8,
}

// specWorld is the modules of a test in both forms, each linked with its own.
type specWorld struct {
	original, rewritten wazero.Runtime
	named               map[string]*specPair
	last                *specPair
	all                 []*specPair
	refused             int
	refusedNames        map[string]string // why, by the name that it would have
	count               specCount
}

// specPair is a module in both forms, or why the gate refuses it.
type specPair struct {
	original, rewritten api.Module
	refused             string
}

const specSlice = 1000

func newSpecWorld(t *testing.T, interpreter bool, spectest string, count specCount) *specWorld {
	t.Helper()
	host, err := os.ReadFile(spectest)
	if err != nil {
		t.Fatal(err)
	}
	config := wazero.NewRuntimeConfig()
	if interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	w := &specWorld{named: map[string]*specPair{}, refusedNames: map[string]string{}, count: count}
	for _, rt := range []*wazero.Runtime{&w.original, &w.rewritten} {
		*rt = wazero.NewRuntimeWithConfig(t.Context(), config.WithCoreFeatures(api.CoreFeaturesV2))
		t.Cleanup(func() { _ = (*rt).Close(context.Background()) })
		if _, err := (*rt).InstantiateWithConfig(t.Context(), host, wazero.NewModuleConfig()); err != nil {
			t.Fatal(err)
		}
	}
	b := w.rewritten.NewHostModuleBuilder(rewrite.ImportModule)
	b.NewFunctionBuilder().WithFunc(func(int64) int64 { return specSlice }).Export(rewrite.ImportRefill)
	if _, err := b.Instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func specOptions() rewrite.Options {
	return rewrite.Options{
		Import:      func(string, string, rewrite.FuncType) error { return nil },
		MemoryPages: 65535, Depth: 100_000, AnyMemory: true,
	}
}

// specRefusal says why the gate refuses what is valid: a memory, table or global
// of another module, which the host could not put back.
func specRefusal(msg string) string {
	for _, thing := range []string{"a table", "a memory", "a global"} {
		if strings.Contains(msg, "is "+thing+": only functions can be imported") {
			return "imports " + thing
		}
	}
	return ""
}

// module instantiates both forms of a valid module.
func (w *specWorld) module(t *testing.T, c specCommand, wasm []byte, as string) {
	t.Helper()
	p := &specPair{}
	w.last = p
	if c.Name != "" {
		w.named[c.Name] = p
	}
	var err [2]error
	err[0], err[1] = w.instantiate(t, p, wasm, as)
	switch {
	case p.refused != "":
		w.refused++
		if as != "" {
			w.refusedNames[as] = p.refused
		}
		w.count["refused module: "+p.refused]++
		return
	case err[0] != nil || err[1] != nil:
		t.Errorf("line %d: original: %v, rewritten: %v", c.Line, err[0], err[1])
		return
	}
	w.all = append(w.all, p)
	w.count[c.Type]++
}

// unlinkable checks that a module that cannot be linked, or traps when it is
// instantiated, does so in the other form too. The engine lets pass what is
// out of the bounds of a table.
func (w *specWorld) unlinkable(t *testing.T, c specCommand, wasm []byte) {
	t.Helper()
	p := &specPair{}
	original, rewritten := w.instantiate(t, p, wasm, "")
	switch {
	case p.refused != "":
		w.count["refused "+c.Type+": "+p.refused]++
		return
	case (original == nil) != (rewritten == nil):
		t.Errorf("line %d: original: %v, rewritten: %v", c.Line, original, rewritten)
	case original == nil:
		w.count["valid to the engine: "+c.Type]++
		return
	}
	w.count[c.Type]++
}

// instantiate makes both forms of a module, or none if the gate refuses it,
// since what the original does to others would not be done.
func (w *specWorld) instantiate(t *testing.T, p *specPair, wasm []byte, as string) (original, rewritten error) {
	t.Helper()
	config := wazero.NewModuleConfig().WithName(as).WithStartFunctions()
	mod, rewritten := rewrite.Rewrite(wasm, specOptions())
	if rewritten != nil {
		if p.refused = specRefusal(rewritten.Error()); p.refused != "" {
			return nil, nil
		}
	} else {
		for _, in := range mod.Imports {
			if _, ok := w.refusedNames[in.Module]; ok {
				p.refused = "imports from one that is refused"
				return nil, nil
			}
		}
	}
	p.original, original = w.original.InstantiateWithConfig(t.Context(), wasm, config)
	if rewritten != nil {
		return original, rewritten
	}
	// The declared maximum has a page to spare, so the allocator enforces it.
	ctx := experimental.WithMemoryAllocator(t.Context(), experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
		return snapshot.NewHeapMemory(most - 64<<10)
	}))
	p.rewritten, rewritten = w.rewritten.InstantiateWithConfig(ctx, mod.Bytes, config)
	if rewritten == nil && mod.Start {
		_, rewritten = p.rewritten.ExportedFunction(rewrite.ExportStart).Call(t.Context())
	}
	return original, rewritten
}

// invalid checks that an invalid module is not made valid.
func (w *specWorld) invalid(t *testing.T, c specCommand, wasm []byte) {
	t.Helper()
	compiles := func(wasm []byte) bool {
		m, err := w.original.CompileModule(t.Context(), wasm)
		if err == nil {
			_ = m.Close(context.Background())
		}
		return err == nil
	}
	if compiles(wasm) {
		w.count["valid to the engine: "+c.Type]++
		return
	}
	w.count[c.Type]++
	mod, err := rewrite.Rewrite(wasm, specOptions())
	// A start function is exported, and so declared for ref.func.
	if err == nil && !mod.Start && compiles(mod.Bytes) {
		t.Errorf("line %d: %s became valid", c.Line, c.Filename)
	}
}

// action calls a function of both forms, or reads a global.
func (w *specWorld) action(t *testing.T, c specCommand) {
	t.Helper()
	p := w.last
	if c.Action.Module != "" {
		p = w.named[c.Action.Module]
	}
	switch {
	case p == nil:
		t.Errorf("line %d: there is no module", c.Line)
		return
	case p.refused != "":
		w.count["refused "+c.Type]++
		return
	case p.original == nil || p.rewritten == nil:
		return // that was reported
	}
	var args []uint64
	for _, a := range c.Action.Args {
		n, err := a.uint64s()
		if err != nil {
			t.Errorf("line %d: argument %s: %v", c.Line, a.Value, err)
			return
		}
		args = append(args, n...)
	}
	var want, got string
	switch c.Action.Type {
	case "invoke":
		want, got = specCall(t, p.original, c.Action.Field, args), specCall(t, p.rewritten, c.Action.Field, args)
	case "get":
		want, got = specGlobal(p.original, c.Action.Field), specGlobal(p.rewritten, c.Action.Field)
	}
	switch {
	case want != got:
		t.Errorf("line %d: %s(%v) = %s, want %s", c.Line, c.Action.Field, args, got, want)
	case strings.HasPrefix(want, "trap") != (c.Type == "assert_trap" || c.Type == "assert_exhaustion"):
		if w.refused > 0 {
			// It would have filled a table or memory of this one.
			w.count["other, for want of one that is refused: "+c.Type]++
			return
		}
		t.Errorf("line %d: %s: %s(%v) = %s", c.Line, c.Type, c.Action.Field, args, want)
	}
	w.count[c.Type]++
}

func specGlobal(m api.Module, name string) string {
	g := m.ExportedGlobal(name)
	if g == nil {
		return "trap: no such global"
	}
	return fmt.Sprint(g.Type(), g.Get())
}

// specCall calls a function and describes the outcome.
func specCall(t *testing.T, m api.Module, name string, args []uint64) string {
	t.Helper()
	f := m.ExportedFunction(name)
	if f == nil {
		return "trap: no such function"
	}
	res, err := f.Call(t.Context(), args...)
	if err != nil {
		if flag, ok := m.ExportedGlobal(rewrite.ExportFlag).(api.MutableGlobal); ok { // what the host resets
			was := flag.Get()
			flag.Set(0)
			m.ExportedGlobal(rewrite.ExportDepth).(api.MutableGlobal).Set(0)
			if was == rewrite.FlagDepth {
				return "trap: stack overflow"
			}
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		return "trap: " + strings.TrimPrefix(first, "wasm error: ")
	}
	// References to functions are addresses.
	at := 0
	for _, typ := range f.Definition().ResultTypes() {
		switch {
		case typ == 0x70 && res[at] != 0:
			res[at] = 1
		case typ == 0x7b:
			at++
		}
		at++
	}
	return fmt.Sprint(res)
}

// compareState compares what all calls have left behind.
func (w *specWorld) compareState(t *testing.T) {
	t.Helper()
	for _, p := range w.all {
		for name := range p.original.ExportedMemoryDefinitions() {
			want, got := p.original.ExportedMemory(name), p.rewritten.ExportedMemory(name)
			if want.Size() != got.Size() {
				t.Errorf("memory %s of %d bytes, want %d", name, got.Size(), want.Size())
				continue
			}
			if want.Size() <= 16<<20 {
				a, _ := want.Read(0, want.Size())
				b, _ := got.Read(0, got.Size())
				if specSum(a) != specSum(b) {
					t.Errorf("memory %s differs", name)
				}
			}
		}
	}
}
