package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/host/internal/snapshot"
)

// specCommand is a command of a wast2json file.
type specCommand struct {
	Type, Filename string
	Line           int
	Action         struct {
		Type, Field, Module string
		Args                []struct{ Type string }
	}
}

type specArgs struct {
	Action struct {
		Args []struct {
			Type  string
			Value json.RawMessage
		}
	}
}

// TestSpecification runs the WebAssembly specification's own tests, which
// the engine's module carries, on the originals and on what the rewriter
// makes of them, and compares.
func TestSpecification(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of modules")
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Skipf("no source of the engine: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "internal/integration_test/spectest/v[12]/testdata/*.json"))
	if err != nil || len(files) == 0 {
		t.Skip("no specification tests in the engine's module")
	}
	modules, calls := 0, 0
	for _, file := range files {
		name := filepath.Base(filepath.Dir(filepath.Dir(file))) + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			m, c := runSpecFile(t, file)
			modules, calls = modules+m, calls+c
		})
	}
	if modules < 500 || calls < 10_000 {
		t.Errorf("only %d modules and %d calls were compared", modules, calls)
	}
}

// specPair is a module in both forms; both are nil if it cannot be compared.
type specPair struct{ original, rewritten api.Module }

func runSpecFile(t *testing.T, file string) (modules, calls int) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Commands []json.RawMessage }
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	e := newPlainEngine(t)
	e.slice = 1000
	var pair specPair
	for _, rawCommand := range all.Commands {
		var c specCommand
		if json.Unmarshal(rawCommand, &c) != nil {
			continue
		}
		switch c.Type {
		case "module":
			pair = specPair{}
			wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				continue
			}
			if pair = e.specModules(t, c, wasm); pair.original != nil {
				modules++
			}
		case "assert_invalid", "assert_malformed":
			if !strings.HasSuffix(c.Filename, ".wasm") {
				continue
			}
			wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				continue
			}
			e.specInvalid(t, c, wasm)
			modules++
		case "action", "assert_return", "assert_trap":
			// References are addresses, and differ.
			if pair.original == nil || strings.HasSuffix(c.Action.Field, "funcref") || c.Action.Type != "invoke" || c.Action.Module != "" {
				continue
			}
			args, ok := specParams(rawCommand)
			if !ok {
				continue
			}
			calls++
			want, got := specCall(t, pair.original, c.Action.Field, args), specCall(t, pair.rewritten, c.Action.Field, args)
			if want != got {
				t.Errorf("line %d: %s(%v) = %s, want %s", c.Line, c.Action.Field, args, got, want)
			}
		}
	}
	return modules, calls
}

func specOptions() rewrite.Options {
	return rewrite.Options{
		Import:      func(string, string, rewrite.FuncType) error { return fmt.Errorf("no imports") },
		MemoryPages: 65535, Depth: 10_000, AnyMemory: true,
	}
}

// specModules instantiates both forms of a valid module.
func (e *plainEngine) specModules(t *testing.T, c specCommand, wasm []byte) specPair {
	t.Helper()
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	original, err := e.rt.InstantiateWithConfig(t.Context(), wasm, config)
	if err != nil {
		return specPair{} // imports
	}
	mod, err := rewrite.Rewrite(wasm, specOptions())
	if err != nil {
		if !strings.Contains(err.Error(), "import") && !strings.Contains(err.Error(), "more than") && !strings.Contains(err.Error(), "reserved") {
			t.Errorf("line %d: refused: %v", c.Line, err)
		}
		return specPair{}
	}
	// The declared maximum has a page to spare, so the allocator enforces it.
	ctx := experimental.WithMemoryAllocator(t.Context(), experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
		return snapshot.NewHeapMemory(most - 64<<10)
	}))
	rewritten, err := e.rt.InstantiateWithConfig(ctx, mod.Bytes, config)
	if err != nil {
		t.Errorf("line %d: rewritten: %v", c.Line, err)
		return specPair{}
	}
	if mod.Start {
		if _, err := rewritten.ExportedFunction(rewrite.ExportStart).Call(t.Context()); err != nil {
			t.Errorf("line %d: start: %v", c.Line, err)
		}
	}
	return specPair{original, rewritten}
}

// specInvalid checks that an invalid module is not made valid.
func (e *plainEngine) specInvalid(t *testing.T, c specCommand, wasm []byte) {
	t.Helper()
	if m, err := e.rt.CompileModule(t.Context(), wasm); err == nil {
		_ = m.Close(context.Background())
		return // the engine is more liberal
	}
	mod, err := rewrite.Rewrite(wasm, specOptions())
	if err != nil {
		return
	}
	if m, err := e.rt.CompileModule(t.Context(), mod.Bytes); err == nil {
		_ = m.Close(context.Background())
		if mod.Start { // which is exported, and so declared for ref.func
			return
		}
		t.Errorf("line %d: %s became valid", c.Line, c.Filename)
	}
}

func specParams(raw json.RawMessage) ([]uint64, bool) {
	var c specArgs
	if json.Unmarshal(raw, &c) != nil {
		return nil, false
	}
	var args []uint64
	for _, a := range c.Action.Args {
		var text string
		if a.Type == "v128" || json.Unmarshal(a.Value, &text) != nil {
			return nil, false
		}
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, false
		}
		args = append(args, v)
	}
	return args, true
}

// specCall calls a function and describes the outcome.
func specCall(t *testing.T, m api.Module, name string, args []uint64) string {
	t.Helper()
	f := m.ExportedFunction(name)
	if f == nil {
		return "no such function"
	}
	res, err := f.Call(t.Context(), args...)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return first
	}
	return fmt.Sprint(res)
}
