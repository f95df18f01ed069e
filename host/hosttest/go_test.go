package hosttest_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/abitest"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

// TestGoGuest runs a guest of the standard Go toolchain, whose runtime needs
// most of what a host has to give, and all its sins.
func TestGoGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a Go guest")
	}
	wasm := hosttest.BuildGo(t, "testdata/goguest")
	cache := t.TempDir()
	var log bytes.Buffer
	rt := newRuntime(t, host.Config{CacheDir: cache, Guests: 2})
	m, err := rt.Load(t.Context(), wasm, host.ModuleConfig{
		Name:     "goguest",
		Settings: []byte(`{"Limit":3}`),
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	if got := m.Manifest().Name; got != "goguest" || !m.Handles(abi.OpValidateCreate) || m.Handles(abi.OpConvert) {
		t.Errorf("manifest %+v", m.Manifest())
	}
	meta, err := host.NewMeta(abi.Meta{UID: "u1", Time: "2026-01-02T03:04:05Z"})
	if err != nil {
		t.Fatal(err)
	}
	object := doc(t, `{"metadata":{"name":"a"},"spec":{"replicas":5}}`)

	prepared, err := m.Call(t.Context(), &host.Call{Op: abi.OpPrepareForCreate, Meta: meta, Object: object})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(prepared.Object.Bytes()); got != `{"metadata":{"name":"a"},"spec":{"replicas":5},"status":{"generation":1}}` {
		t.Errorf("prepared %s", got)
	}
	validate := func() *host.Result {
		t.Helper()
		res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Meta: meta, Object: object})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := validate()
	if len(first.Errors) != 1 || first.Errors[0].Detail != "must not exceed 3" || string(first.Errors[0].Value) != "5" {
		t.Errorf("errors %+v", first.Errors)
	}

	tests := []struct {
		sin   string
		class host.Class // 0: no failure
		text  string
	}{
		{"panic", host.ClassTrap, "panic: boom"},
		{"loop", host.ClassFuel, "fuel exhausted after 50000000 units"},
		{"recurse", host.ClassDepth, "calls nested deeper than 2000"},
		{"grow", host.ClassMemory, "wants more than 65536 KiB of memory"},
		{"exit", host.ClassTrap, "exit status 3"},
		{"deadlock", host.ClassTrap, "all goroutines are asleep"},
		{"none", host.ClassTrap, `the guest failed: no such sin "none"`},
		{"time", 0, "time:2026-01-02T03:04:05Z"},
		{"deep", 0, strings.Repeat("x", 800)},
		{"log", 0, ""},
	}
	for _, tc := range tests {
		t.Run(tc.sin, func(t *testing.T) {
			var texts [2]string
			for i := range texts {
				res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateUpdate, Meta: meta, Object: doc(t, `{"spec":{"sin":"`+tc.sin+`"}}`)})
				class, _ := host.ClassOf(err)
				texts[i] = fmt.Sprint(err)
				if err == nil {
					texts[i] = fmt.Sprint(res.Warnings, res.Audit, res.Fuel)
				}
				if class != tc.class || !strings.Contains(texts[i], tc.text) {
					t.Errorf("%s (%v), want class %v and %s", texts[i], class, tc.class, tc.text)
				}
				if again := validate(); again.Fuel != first.Fuel || again.Audit["calls"] != first.Audit["calls"] {
					t.Errorf("afterwards %d units and %s calls, want %d and %s", again.Fuel, again.Audit["calls"], first.Fuel, first.Audit["calls"])
				}
			}
			if texts[0] != texts[1] {
				t.Errorf("first %s, then %s", texts[0], texts[1])
			}
			if tc.sin == "time" && !strings.Contains(texts[0], "slept:1h1m0s") {
				t.Errorf("slept: %s", texts[0])
			}
		})
	}
	if !strings.Contains(log.String(), `line="panic: boom"`) {
		t.Error("the panic is not in the log")
	}

	t.Run("conforms", func(t *testing.T) {
		abitest.RunTestGuest(t, hosttest.Conformance(rt), wasm)
	})

	t.Run("from the cache", func(t *testing.T) {
		rt := newRuntime(t, host.Config{CacheDir: cache})
		m, err := rt.Load(t.Context(), wasm, host.ModuleConfig{Name: "again", Settings: []byte(`{"Limit":3}`)})
		if err != nil {
			t.Fatal(err)
		}
		res, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Meta: meta, Object: object})
		if err != nil || res.Fuel != first.Fuel {
			t.Errorf("%+v, %v, want %d units", res, err, first.Fuel)
		}
	})
}
