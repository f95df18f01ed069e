package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/sdk/go/build"
)

// load builds the module and loads it.
func load(tb testing.TB) *host.Module {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "deployment.wasm")
	if err := build.Guest(tb.Context(), build.Config{Dir: ".", Output: file}); err != nil {
		tb.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	runtime, err := host.NewRuntime(host.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	module, err := runtime.Load(tb.Context(), wasm, host.ModuleConfig{Name: "deployment"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := module.Close(context.Background()); err != nil {
			tb.Error(err)
		}
		if err := runtime.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return module
}

// guest is the strategy in WebAssembly.
type guest struct{ module *host.Module }

func (g guest) Run(ctx context.Context, hook string, obj, old *document.Document) (policytest.Outcome, error) {
	var out policytest.Outcome
	op, ok := abi.ParseOp(hook)
	if !ok {
		return out, fmt.Errorf("hook %q does not exist", hook)
	}
	if !g.module.Handles(op) {
		return out, nil
	}
	res, err := g.module.Call(ctx, &host.Call{Op: op, Object: obj, OldObject: old})
	if err != nil {
		return out, err
	}
	if res.Denied != nil {
		return out, fmt.Errorf("denied: %s", res.Denied.Message)
	}
	out.Object, out.Warnings = res.Object, res.Warnings
	for _, e := range res.Errors {
		fe := policytest.FieldError{Type: e.Type, Field: e.Field, Detail: &e.Detail}
		if e.Value != nil {
			if fe.Value, err = document.Parse(e.Value); err != nil {
				return out, err
			}
		}
		out.Errors = append(out.Errors, fe)
	}
	return out, nil
}

func TestModule(t *testing.T) {
	module := load(t)
	want := []string{"configure", "default", "prepareForCreate", "validateCreate", "prepareForUpdate", "validateUpdate", "warningsOnCreate", "warningsOnUpdate"}
	if got := module.Manifest(); !slices.Equal(got.Hooks, want) || got.Name != "deployment" || got.Kind != "Deployment" {
		t.Errorf("manifest is %+v", got)
	}
	suites, err := policytest.Load(library.FS, "deployment/cases")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("cases", func(t *testing.T) { policytest.Run(t, suites, guest{module}) })
	t.Run("prepare", func(t *testing.T) { testPrepare(t, module) })
}

// testPrepare tests what the shared cases leave to the generic strategy.
func testPrepare(t *testing.T, module *host.Module) {
	tests := []struct {
		name, object, old, want string
		op                      abi.Op
	}{
		{
			name: "create", op: abi.OpPrepareForCreate,
			object: `{"metadata":{"generation":7},"spec":{"replicas":1},"status":{"replicas":3}}`,
			want:   `{"metadata":{"generation":1},"spec":{"replicas":1}}`,
		},
		{
			name: "update", op: abi.OpPrepareForUpdate,
			object: `{"metadata":{"generation":4},"spec":{"replicas":2}}`,
			old:    `{"metadata":{"generation":4},"spec":{"replicas":1},"status":{"replicas":3}}`,
			want:   `{"metadata":{"generation":5},"spec":{"replicas":2},"status":{"replicas":3}}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out, err := guest{module}.Run(t.Context(), tc.op.String(), parse(t, tc.object), parse(t, tc.old))
			if err != nil {
				t.Fatal(err)
			}
			if out.Object == nil || string(out.Object.Bytes()) != tc.want {
				t.Errorf("got %v, want %s", out.Object, tc.want)
			}
		})
	}
}

func parse(tb testing.TB, text string) *document.Document {
	tb.Helper()
	if text == "" {
		return nil
	}
	d, err := document.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
