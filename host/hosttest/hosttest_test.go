package hosttest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

func newRuntime(t *testing.T, config host.Config) *host.Runtime {
	t.Helper()
	rt, err := host.NewRuntime(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func doc(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSinners also proves that no sin is visited on another: one runtime
// meets them all, and a righteous guest of it answers after each.
func TestSinners(t *testing.T) {
	// On a slow machine, too, it is not the clock that stops them.
	rt := newRuntime(t, host.Config{Limits: host.Limits{Timeout: time.Hour}})
	echo, err := rt.Load(t.Context(), hosttest.Echo("echo"), host.ModuleConfig{Name: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	object := doc(t, `{"spec":{"replicas":1}}`)
	for _, s := range hosttest.Sinners() {
		t.Run(s.Name, func(t *testing.T) {
			m, err := rt.Load(t.Context(), s.Wasm, host.ModuleConfig{Name: s.Name})
			if !s.AtLoad {
				if err != nil {
					t.Fatalf("load: %v", err)
				}
				defer m.Close(t.Context())
				op := abi.OpValidateCreate
				if s.Mutates {
					op = abi.OpPrepareForCreate
				}
				for range 2 { // the second meets what the first left
					_, err = m.Call(t.Context(), &host.Call{Op: op, Object: object})
					check(t, s, err)
				}
			} else {
				check(t, s, err)
			}
			res, err := echo.Call(t.Context(), &host.Call{Op: abi.OpConnect, Object: object})
			if err != nil || !res.Object.Equal(object) {
				t.Errorf("another guest afterwards: %v, %v", res, err)
			}
		})
	}
}

func check(t *testing.T, s hosttest.Sinner, err error) {
	t.Helper()
	class, ok := host.ClassOf(err)
	if !ok || class != s.Class || !strings.Contains(err.Error(), s.Message) || !strings.HasPrefix(err.Error(), "module["+s.Name+"]") {
		t.Errorf("%v (%v), want class %v and %q", err, class, s.Class, s.Message)
	}
}
