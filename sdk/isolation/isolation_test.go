// Package isolation has a guest in the language of each SDK that keeps what it
// sees in a global, on its heap and in memory that it grew, and shows that no
// request sees what another left.
package isolation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/sdk/build"
)

// guest builds the guest of a language. Without its tools the test is skipped,
// but fails where CI is set, whose tools `make toolchains` installs.
func guest(t *testing.T, language build.Language) []byte {
	t.Helper()
	if missing := build.Missing(t.Context(), language); missing != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	file := filepath.Join(t.TempDir(), "guest.wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: string(language), Output: file, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

const (
	callers = 8
	// calls of a module in the mode that a server has, and in each other.
	calls, callsOther = 10_000, 500
	// settings are what every call finds kept, as configure has left it.
	settings = `{"secret":"of the settings"}`
)

var modes = []host.RestoreMode{host.RestoreAuto, host.RestoreCopy, host.RestoreDiscard, host.RestoreSticky}

// load loads a module on a runtime of its own, whose guests are fewer than
// callers, so that each is used again and again.
func load(t *testing.T, wasm []byte, mode host.RestoreMode, cache string, settings []byte) *host.Module {
	t.Helper()
	// A call may take as long as a machine that does much else needs for it.
	rt, err := host.NewRuntime(host.Config{Guests: 3, Restore: mode, CacheDir: cache, Limits: host.Limits{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := rt.Load(t.Context(), wasm, host.ModuleConfig{Name: "keeper", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// inParallel makes n calls from several goroutines until one fails.
func inParallel(t *testing.T, n int64, call func(i int64) error) {
	t.Helper()
	var next atomic.Int64
	var failed atomic.Bool
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= n && !failed.Load(); i = next.Add(1) {
				if err := call(i); err != nil {
					t.Errorf("call %d: %v", i, err)
					failed.Store(true)
				}
			}
		})
	}
	all.Wait()
}

// modeName is the mode in the name of a test.
func modeName(mode host.RestoreMode) string {
	if mode == host.RestoreAuto {
		return "auto"
	}
	return string(mode)
}

// TestSecrets: no request finds the secret of another kept, in no language and
// in no mode of putting memory back, whether the others ended well or trapped.
func TestSecrets(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a guest of each language")
	}
	for _, language := range build.Languages() {
		t.Run(string(language), func(t *testing.T) {
			wasm, cache := guest(t, language), t.TempDir()
			for _, mode := range modes {
				t.Run(modeName(mode), func(t *testing.T) {
					n := int64(calls)
					if mode != host.RestoreAuto {
						n = callsOther
					}
					m := load(t, wasm, mode, cache, []byte(settings))
					inParallel(t, n, func(i int64) error { return keepSecret(t.Context(), m, i) })
				})
			}
		})
	}
}

// keepSecret has a guest keep the secret of a request, and tells if it found
// anything else kept than what configure left.
func keepSecret(ctx context.Context, m *host.Module, i int64) error {
	secret, traps := fmt.Sprintf("of request %d", i), i%10 == 0
	object, err := document.Parse(fmt.Appendf(nil, `{"spec":{"secret":%q,"trap":%t}}`, secret, traps))
	if err != nil {
		return err
	}
	result, err := m.Call(ctx, &host.Call{Op: abi.OpValidateCreate, Object: object})
	if traps {
		if class, ok := host.ClassOf(err); !ok || class != host.ClassTrap {
			return fmt.Errorf("got %w, want a trap", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	const left = "of the settings"
	if want := []string{left, left, left}; !slices.Equal(result.Warnings, want) {
		return fmt.Errorf("found %q kept, want %q", result.Warnings, want)
	}
	for _, place := range []string{"global", "heap", "memory"} {
		if got := result.Audit[place]; got != secret {
			return fmt.Errorf("kept %q in its %s, want %q", got, place, secret)
		}
	}
	return nil
}

// tableKeeper is a guest made by hand that warns of the size of its table, and
// then has it grow: no compiler of the SDKs does that. If the object has a
// member trap it traps at last.
func tableKeeper() []byte {
	g := hosttest.NewGuest("tablekeeper", abi.OpValidateCreate)
	g.Table(0, 100)
	at, n := g.Text(`{"warnings":["0"]}`)
	path, pathLen := g.Text("trap")
	const add, geS = 0x6a, 0x4e
	var code hosttest.Code
	code = code.I32Const(at+14).Op(0xfc, 16, 0).I32Const('0').Op(add).Store8(0) // table.size
	code = code.Op(0xd0, 0x70).I32Const(1).Op(0xfc, 15, 0).Drop()               // table.grow
	code = code.I32Const(int32(abi.SlotResult)).I32Const(at).I32Const(n).Call(g.Write).Drop()
	code = code.I32Const(int32(abi.SlotObject)).I32Const(path).I32Const(pathLen).I32Const(0).I32Const(0).Call(g.Query).
		I32Const(0).Op(geS).If(hosttest.Code(nil).Unreachable())
	return g.Finish(code)
}

// TestTable: a table that grew is as it was in the next request.
func TestTable(t *testing.T) {
	plain, err := document.Parse([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	trapping, err := document.Parse([]byte(`{"trap":1}`))
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, tableKeeper(), host.RestoreAuto, "", nil)
	inParallel(t, calls, func(i int64) error {
		object := plain
		if i%10 == 0 {
			object = trapping
		}
		result, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: object})
		switch class, _ := host.ClassOf(err); {
		case object == trapping && class == host.ClassTrap:
		case err != nil:
			return err
		case result.Warnings[0] != "0":
			return fmt.Errorf("the table has %s elements", result.Warnings[0])
		}
		return nil
	})
}
