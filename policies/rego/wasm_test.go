package rego

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
)

func TestContract(t *testing.T) {
	if hookAdmitValidate != int(abi.OpAdmitValidate) || slotResult != int(abi.SlotResult) || slotManifest != int(abi.SlotManifest) {
		t.Error("the contract has other numbers")
	}
	for _, s := range slots {
		want := map[string]abi.Slot{"meta": abi.SlotMeta, "object": abi.SlotObject, "oldObject": abi.SlotOldObject, "settings": abi.SlotSettings, "params": abi.SlotParams, "namespaceObject": abi.SlotNamespace}[s.name]
		if int64(want) != s.slot {
			t.Errorf("%s is slot %d, not %d", s.name, want, s.slot)
		}
	}
}

// guest loads a policy as a module.
func guest(t *testing.T, src *Source) *host.Module {
	t.Helper()
	wasm, missing, err := newEngine(t, Config{}).CompileWasm(t.Context(), "policy", src)
	if err != nil || missing != nil {
		t.Fatal(missing, err)
	}
	rt, err := host.NewRuntime(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(t.Context()) })
	m, err := rt.Load(t.Context(), wasm, host.ModuleConfig{Name: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	return m
}

// judgeGuest asks a module as the server would.
func judgeGuest(t *testing.T, m *host.Module, r *policies.Review) (*host.Result, error) {
	t.Helper()
	meta, err := host.NewMeta(abi.Meta{
		UID: "u", Operation: abi.Operation(r.Request.Get("operation").String()), Time: host.FormatTime(r.Time),
		Group: r.Request.Get("kind", "group").String(), Kind: r.Request.Get("kind", "kind").String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	params := r.Params.Document()
	return m.Call(t.Context(), &host.Call{Op: abi.OpAdmitValidate, Meta: meta, Object: r.Object.Document(), OldObject: r.OldObject.Document(), Params: params})
}

// TestLibraryAsWasm: the policies of the library that are written in Rego say the same
// when they run on the host.
func TestLibraryAsWasm(t *testing.T) {
	dirs, err := library.Policies()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, dir := range dirs {
		p, err := policytest.LoadPolicy(library.FS, dir)
		if err != nil {
			t.Fatal(err)
		}
		if p.Rego == "" {
			continue
		}
		t.Run(dir, func(t *testing.T) {
			m := guest(t, &Source{Path: dir, Modules: []Module{{Text: p.Rego}}})
			for _, suite := range p.Suites {
				for _, c := range suite.Cases {
					ran++
					res, err := judgeGuest(t, m, c.Review)
					if err != nil {
						t.Fatalf("%s: %v", c.Name, err)
					}
					denied := res.Denied != nil
					if denied != (c.Expect == policytest.Denied) {
						t.Errorf("%s: got %+v, want %s", c.Name, res, c.Expect)
					}
					if denied && c.Messages != nil && res.Denied.Message != strings.Join(slices.Sorted(slices.Values(c.Messages)), "; ") {
						t.Errorf("%s: got %q, want %q", c.Name, res.Denied.Message, c.Messages)
					}
				}
			}
		})
	}
	if ran < 20 {
		t.Errorf("%d cases ran", ran)
	}
}

func TestCompileWasm(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a denial", `deny contains "b" if input.object.b
			deny contains "a"
			warn contains {"msg": "w"}`, "422 Invalid a; b | w"},
		{"code and reason", `violation contains {"msg": "m", "code": 403, "reason": "Forbidden"}`, "403 Forbidden m | "},
		{"nothing", `deny contains "m" if input.object.i == 4`, " | "},
		{"allow", `allow if input.object.i == 4`, "422 Invalid the policy does not allow it | "},
		{"no message", `deny contains {"text": "m"}`, "500  the policy gives a denial without a message | "},
		{"numbers are exact", `deny contains "m" if input.object.max != 9223372036854775807`, " | "},
		{"null is what is absent", `deny contains "m" if { input.oldObject == null; input.params == null; input.namespaceObject == null; input.object.absent == null }
			deny contains "n" if { input.oldObject == null; input.params == null; input.request.operation == "CREATE" }`, "422 Invalid n | "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m := guest(t, &Source{Path: "p", Modules: []Module{{Text: "package p\n" + tc.text}}})
			request := mustDoc(t, `{"operation":"CREATE"}`)
			r := review(t, object1)
			r.Request = request.Root()
			for range 3 {
				res, err := judgeGuest(t, m, r)
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				if d := res.Denied; d != nil {
					got = strings.TrimSpace(strings.Join([]string{itoa(int(d.Code)), d.Reason, d.Message}, " "))
				}
				if got += " | " + strings.Join(res.Warnings, ","); got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		wasm, missing, err := newEngine(t, Config{}).CompileWasm(t.Context(), "p", &Source{Path: "p", Modules: []Module{{Text: "package p\ndeny contains sprintf(\"%d\", [time.now_ns()])"}}})
		if wasm != nil || err != nil || !slices.Equal(missing, []string{"sprintf", "time.now_ns"}) {
			t.Errorf("got %q, %v", missing, err)
		}
	})
	t.Run("issues", func(t *testing.T) {
		_, _, err := newEngine(t, Config{}).CompileWasm(t.Context(), "p", &Source{Path: "p", Modules: []Module{{Text: "package p\ndeny contains x"}}})
		var issues policies.Issues
		if !errors.As(err, &issues) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a runaway", func(t *testing.T) {
		m := guest(t, &Source{Path: "p", Modules: []Module{{Text: "package p\ndeny contains \"m\" if { some x in numbers.range(1, 10000); some y in numbers.range(1, 10000); x + y == 0 }"}}})
		_, err := judgeGuest(t, m, &policies.Review{Object: mustDoc(t, `{}`).Root(), Request: mustDoc(t, `{"operation":"CREATE"}`).Root()})
		if class, ok := host.ClassOf(err); !ok || class != host.ClassFuel && class != host.ClassMemory && class != host.ClassDeadline {
			t.Errorf("got %v", err)
		}
	})
}

func itoa(n int) string {
	return string(document.FromCanonical([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)}).Bytes())
}
