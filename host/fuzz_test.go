package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/host/internal/rewrite"
)

// FuzzRewrite checks that the rewriter survives anything, and that what it
// makes is valid just when the original is. So no module can use what the
// rewriter added, and no valid one is broken.
func FuzzRewrite(f *testing.F) {
	for _, s := range hosttest.Sinners() {
		f.Add(s.Wasm)
	}
	f.Add(hosttest.Echo("echo"))
	f.Add(hosttest.Keeper())
	f.Add(hosttest.TableKeeper())
	f.Add(hosttest.Asker("a.b"))
	rt := wazero.NewRuntimeWithConfig(f.Context(), wazero.NewRuntimeConfigInterpreter().
		WithCoreFeatures(api.CoreFeaturesV2).WithMemoryLimitPages(65536))
	f.Cleanup(func() { _ = rt.Close(context.Background()) })
	valid := func(t *testing.T, wasm []byte) error {
		m, err := rt.CompileModule(t.Context(), wasm)
		if err == nil {
			_ = m.Close(t.Context())
		}
		return err
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := rewrite.Rewrite(wasm, rewrite.Options{
			Import:      func(string, string, rewrite.FuncType) error { return nil },
			ModuleBytes: 1 << 20, MemoryPages: 64, Depth: 100,
		})
		if err != nil {
			return
		}
		original, rewritten := valid(t, wasm), valid(t, m.Bytes)
		if (original == nil) != (rewritten == nil) && !tolerated(original) {
			t.Errorf("original: %v\nrewritten: %v", original, rewritten)
		}
	})
}

// tolerated are faults of an original that the rewriter mends: custom
// sections that it drops, and references to a start function that is
// declared by being exported.
func tolerated(err error) bool {
	if err == nil {
		return false
	}
	for _, s := range []string{"section custom", "name section", "undeclared function"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}
