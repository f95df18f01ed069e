package library_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/sdk/build"
)

// inAllEngines are the policies that are written in CEL, in Rego and in C.
var inAllEngines = []string{"image-registries", "replicas", "required-labels"}

// load reads a directory of the library.
func load(t *testing.T, dir string) *policytest.PolicyDir {
	t.Helper()
	p, err := policytest.LoadPolicy(library.FS, dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// guest builds the policy.c of a directory and loads it. Without a compiler the test is
// skipped, but fails where CI is set.
func guest(t *testing.T, dir string) *host.Module {
	t.Helper()
	if missing := build.Missing(t.Context(), build.C); missing != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	file := filepath.Join(t.TempDir(), dir+".wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: dir, Output: file}); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := host.NewRuntime(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runtime.Close(t.Context()) })
	m, err := runtime.Load(t.Context(), wasm, host.ModuleConfig{Name: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	return m
}

// ask calls a guest as the server does.
func ask(t *testing.T, m *host.Module, r *policies.Review) (*host.Result, error) {
	t.Helper()
	meta, err := host.NewMeta(abi.Meta{
		UID: r.Request.Get("uid").String(), Operation: abi.Operation(r.Request.Get("operation").String()), Time: host.FormatTime(r.Time),
		Group: r.Request.Get("kind", "group").String(), Kind: r.Request.Get("kind", "kind").String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m.Call(t.Context(), &host.Call{
		Op: abi.OpAdmitValidate, Meta: meta,
		Object: r.Object.Document(), OldObject: r.OldObject.Document(), Params: r.Params.Document(),
	})
}

// TestGuests: what is written in C says the same as what is written in CEL and in Rego,
// which package policytest tests.
func TestGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles guests")
	}
	for _, dir := range inAllEngines {
		t.Run(dir, func(t *testing.T) {
			p := load(t, dir)
			if p.Rego == "" {
				t.Error("it is not in Rego")
			}
			m := guest(t, dir)
			for _, suite := range p.Suites {
				for _, c := range suite.Cases {
					t.Run(c.Name, func(t *testing.T) {
						res, err := ask(t, m, c.Review)
						if err != nil {
							t.Fatal(err)
						}
						if denied := res.Denied != nil; denied != (c.Expect == policytest.Denied) {
							t.Fatalf("got %+v, want it %s", res, c.Expect)
						}
						if want := strings.Join(slices.Sorted(slices.Values(c.Messages)), "; "); c.Expect == policytest.Denied && c.Messages != nil && res.Denied.Message != want {
							t.Errorf("got %q, want %q", res.Denied.Message, want)
						}
					})
				}
			}
		})
	}
}

// TestParamsAreAskedFor: a guest without the params it needs fails, it does not allow.
func TestParamsAreAskedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles guests")
	}
	tests := []struct{ dir, want string }{
		{"image-registries", "params have no registries"},
		{"replicas", "params: data.min is no number"},
	}
	for _, tc := range tests {
		t.Run(tc.dir, func(t *testing.T) {
			review := *load(t, tc.dir).Suites[0].Cases[0].Review
			review.Params = policies.Review{}.Params
			if res, err := ask(t, guest(t, tc.dir), &review); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}
