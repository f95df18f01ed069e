package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

// namespaceReader is a guest that reads the namespace so many times. The status is 100 and the errno if there is none.
func namespaceReader(times int) []byte {
	g := hosttest.NewGuest("reader", abi.OpValidateCreate)
	const buffer = 1 << 15
	var code hosttest.Code
	for range times {
		code = code.I32Const(int32(abi.SlotNamespace)).I32Const(0).I32Const(buffer).I32Const(1000).Call(g.Read).LocalTee(1).
			I32Const(0).Op(0x48).If(hosttest.Code(nil).I32Const(100).LocalGet(1).Op(0x6b).Return()) // i32.lt_s, i32.sub
	}
	return g.Finish(code)
}

// The namespace is read when a guest first wants it, once.
func TestReadNamespace(t *testing.T) {
	gone := errors.New("it is gone")
	tests := []struct {
		name         string
		times, reads int
		namespace    *document.Document
		err          error
		want         string
		class        host.Class
	}{
		{name: "not wanted", err: gone},
		{name: "wanted twice", times: 2, reads: 1, namespace: document.FromCanonical([]byte(`{"kind":"Namespace"}`))},
		{name: "of nothing in a namespace", times: 1, reads: 1, want: "status 102", class: host.ClassBadOutput},
		{name: "gone", times: 1, reads: 1, err: gone, want: "module[m] hook[validateCreate]: the namespace cannot be read now: it is gone", class: host.ClassNotReady},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, rt *host.Runtime) {
				m := load(t, rt, namespaceReader(tc.times), host.ModuleConfig{})
				for range 2 { // the guest serves again
					reads := 0
					_, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`), ReadNamespace: func(ctx context.Context) (*document.Document, error) {
						reads++
						if left, ok := ctx.Deadline(); !ok || time.Until(left) > time.Minute {
							t.Error("it may take as long as it likes")
						}
						return tc.namespace, tc.err
					}})
					class, _ := host.ClassOf(err)
					if class != tc.class || err != nil && !strings.HasSuffix(err.Error(), tc.want) || !errors.Is(err, tc.err) && tc.reads > 0 && tc.err != nil {
						t.Errorf("%v, want %q", err, tc.want)
					}
					if reads != tc.reads {
						t.Errorf("it was read %d times, want %d", reads, tc.reads)
					}
				}
				// A call that brings it has no need to read it, and one without it does not see the one before.
				_, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`), Namespace: doc(t, `{}`)})
				if err != nil {
					t.Error(err)
				}
				if _, err = m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`)}); (err != nil) != (tc.times > 0) {
					t.Errorf("without one: %v", err)
				}
			})
		})
	}
}
