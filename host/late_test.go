package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

// slotReader is a guest that reads a slot so many times. The status is 100 and the errno if there is none.
func slotReader(slot abi.Slot, times int) []byte {
	g := hosttest.NewGuest("reader", abi.OpValidateCreate)
	const buffer = 1 << 15
	var code hosttest.Code
	for range times {
		code = code.I32Const(int32(slot)).I32Const(0).I32Const(buffer).I32Const(1000).Call(g.Read).LocalTee(1).
			I32Const(0).Op(0x48).If(hosttest.Code(nil).I32Const(100).LocalGet(1).Op(0x6b).Return()) // i32.lt_s, i32.sub
	}
	return g.Finish(code)
}

// The namespace is read when a guest first wants it, once.
func TestLateNamespace(t *testing.T) {
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
		{name: "gone", times: 1, reads: 1, err: gone, want: "module[m] hook[validateCreate]: namespace cannot be read now: it is gone", class: host.ClassNotReady},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bothEngines(t, func(t *testing.T, rt *host.Runtime) {
				m := load(t, rt, slotReader(abi.SlotNamespace, tc.times), host.ModuleConfig{})
				for range 2 { // the guest serves again
					reads := 0
					_, err := m.Call(t.Context(), &host.Call{Op: abi.OpValidateCreate, Object: doc(t, `{}`), Late: func(ctx context.Context, slot abi.Slot) (*document.Document, error) {
						if reads++; slot != abi.SlotNamespace {
							t.Errorf("%s is read", slot)
						}
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

// What a call says late is asked for slot by slot, and never instead of what it has.
func TestLateSlots(t *testing.T) {
	tests := []struct {
		slot abi.Slot
		call host.Call
		want string // the slot that is asked for
		ok   bool
	}{
		{slot: abi.SlotMeta, want: "meta", ok: true},
		{slot: abi.SlotOptions, want: "options", ok: true},
		{slot: abi.SlotNamespace, want: "namespace", ok: true},
		{slot: abi.SlotMeta, call: host.Call{Meta: doc(t, `{}`)}, ok: true},
		{slot: abi.SlotOldObject},
		{slot: abi.SlotParams},
	}
	rt := newRuntime(t, host.Config{})
	for _, tc := range tests {
		t.Run(tc.slot.String(), func(t *testing.T) {
			m := load(t, rt, slotReader(tc.slot, 2), host.ModuleConfig{})
			var asked []string
			call := tc.call
			call.Op, call.Object = abi.OpValidateCreate, doc(t, `{}`)
			call.Late = func(_ context.Context, slot abi.Slot) (*document.Document, error) {
				asked = append(asked, slot.String())
				return document.FromCanonical([]byte(`{}`)), nil
			}
			if _, err := m.Call(t.Context(), &call); (err == nil) != tc.ok {
				t.Error(err)
			}
			if got := strings.Join(asked, " "); got != tc.want {
				t.Errorf("it is asked for %q, want %q", got, tc.want)
			}
		})
	}
}

// TestMetaIsCanonical reads what NewMeta writes by hand, and holds it against the same written by the library.
func TestMetaIsCanonical(t *testing.T) {
	tests := []struct {
		name string
		meta abi.Meta
	}{
		{"empty", abi.Meta{}},
		{"all", abi.Meta{UID: "u", Operation: abi.OperationUpdate, Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Subresource: "scale",
			Namespace: "ns", Name: `a"b<&> `, DryRun: true, Seed: "00",
			User: abi.User{Username: "system:\n\x01ä", UID: "1", Groups: []string{"a", "b\\"}, Extra: map[string][]string{"z": {"1"}, "a/b": {"2", "3"}, "none": nil, "empty": {}}}}},
		{"a user of one group", abi.Meta{UID: "x", User: abi.User{Groups: []string{"g"}}}},
		{"an extra alone", abi.Meta{User: abi.User{Extra: map[string][]string{"a": {"b"}}}}},
		{"not UTF-8", abi.Meta{Name: "a\xffb", User: abi.User{UID: "u"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.meta.Time = "2026-01-02T03:04:05.6Z"
			got, err := host.NewMeta(tc.meta)
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Err(); err != nil {
				t.Fatal(err)
			}
			if tc.meta.Seed == "" {
				tc.meta.Seed = got.Get("seed").String()
			}
			raw, err := json.Marshal(tc.meta)
			if err != nil {
				t.Fatal(err)
			}
			want, err := document.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Bytes()) != string(want.Bytes()) {
				t.Errorf("got\n%s\nwant\n%s", got.Bytes(), want.Bytes())
			}
		})
	}
}
