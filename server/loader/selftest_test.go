package loader

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/server/apis/v1alpha1"
)

// loadGuest makes a Loader with nothing but a host, and a module of it.
func loadGuest(t *testing.T, wasm []byte) (*Loader, *loadedModule) {
	t.Helper()
	rt, err := host.NewRuntime(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l := &Loader{cfg: Config{Logger: slog.New(slog.DiscardHandler), Host: rt}}
	load := &moduleLoad{Loader: l, object: &v1alpha1.Module{}}
	load.object.Name = "m"
	m, err := load.compile(t.Context(), host.Digest(wasm), wasm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.release()
		if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l, m
}

func TestModuleTests(t *testing.T) {
	answer := func(op abi.Op, slot abi.Slot, text string) []byte {
		g := hosttest.NewGuest("answer", op)
		return g.Finish(g.WriteText(nil, slot, text))
	}
	refuses := answer(abi.OpValidateCreate, abi.SlotResult, `{"errors":[{"type":"FieldValueInvalid","field":"spec.n","detail":"too large"}]}`)
	denies := answer(abi.OpValidateCreate, abi.SlotResult, `{"denied":{"message":"not here"}}`)
	patches := answer(abi.OpPrepareForCreate, abi.SlotPatch, `[{"op":"add","path":"/n","value":2}]`)
	picky := hosttest.NewGuest("picky", abi.OpConfigure, abi.OpValidateCreate)
	at, n := picky.Text("bad")
	configurable := picky.Finish(hosttest.Code(nil).LocalGet(0).I32Const(int32(abi.OpConfigure)).Op(0x46).If(hosttest.Code(nil).
		I32Const(int32(abi.SlotSettings)).I32Const(at).I32Const(n).I32Const(40 << 10).I32Const(100).Call(picky.Query).
		I32Const(0).Op(0x4e).If(picky.WriteText(nil, abi.SlotResult, `{"denied":{"message":"bad settings"}}`))))
	var sinner []byte
	for _, s := range hosttest.Sinners() {
		if s.Name == "traps" {
			sinner = s.Wasm
		}
	}
	tests := []struct {
		name string
		wasm []byte
		test v1alpha1.ModuleTest
		want string // "" passes
	}{
		{"what is refused", refuses, v1alpha1.ModuleTest{Hook: "validateCreate", ExpectErrors: []string{"spec.n"}}, ""},
		{"what should pass", refuses, v1alpha1.ModuleTest{Hook: "validateCreate"}, "refused: spec.n: too large"},
		{"another field", refuses, v1alpha1.ModuleTest{Hook: "validateCreate", ExpectErrors: []string{"spec.n", "spec.m"}}, `no error of field "spec.m"; errors of ["spec.n"]`},
		{"a denial", denies, v1alpha1.ModuleTest{Hook: "validateCreate", ExpectErrors: []string{""}}, ""},
		{"a denial of what should pass", denies, v1alpha1.ModuleTest{Hook: "validateCreate"}, "refused: not here"},
		{"an object", patches, v1alpha1.ModuleTest{Hook: "prepareForCreate", ExpectObject: raw(`{"n":2,"a":1}`)}, ""},
		{"another object", patches, v1alpha1.ModuleTest{Hook: "prepareForCreate", ExpectObject: raw(`{"a":1,"n":3}`)}, `the object is {"a":1,"n":2}, want {"a":1,"n":3}`},
		{"an object that stays", refuses, v1alpha1.ModuleTest{Hook: "validateCreate", ExpectErrors: []string{"spec.n"}, ExpectObject: raw(`{"a":1}`)}, ""},
		{"a hook that does not exist", patches, v1alpha1.ModuleTest{Hook: "levitate"}, `hook "levitate" does not exist`},
		{"a hook that it lacks", patches, v1alpha1.ModuleTest{Hook: "validateCreate"}, `the module does not implement hook "validateCreate"; it has prepareForCreate`},
		{"settings", configurable, v1alpha1.ModuleTest{Hook: "validateCreate", Settings: raw(`{"good":true}`)}, ""},
		{"refused settings", configurable, v1alpha1.ModuleTest{Hook: "validateCreate", Settings: raw(`{"bad":true}`)}, "settings refused: bad settings"},
		{"a trap", sinner, v1alpha1.ModuleTest{Hook: "validateCreate"}, "trap: unreachable"},
		{"an object that is none", patches, v1alpha1.ModuleTest{Hook: "prepareForCreate", OldObject: raw(`{`)}, "oldObject: "},
		{"a group version that is none", patches, v1alpha1.ModuleTest{Hook: "prepareForCreate", Object: raw(`{"apiVersion":"a/b/c"}`)}, "object: unexpected GroupVersion string: a/b/c"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l, m := loadGuest(t, tc.wasm)
			test := tc.test
			test.Name = "t"
			if len(test.Object.Raw) == 0 {
				test.Object = raw(`{"a":1}`)
			}
			object := &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Tests: []v1alpha1.ModuleTest{test}}}
			err := l.runTests(t.Context(), object, m, tc.wasm)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), `1 of 1 tests failed: test "t": `) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func raw(text string) runtime.RawExtension { return runtime.RawExtension{Raw: json.RawMessage(text)} }

// What a test hook sees of its request is always the same.
func TestMetaOfTests(t *testing.T) {
	g := hosttest.NewGuest("asks", abi.OpValidateDelete)
	// The result is the request itself, of which only the audit would be read; its length says that it is there.
	wasm := g.Finish(hosttest.Code(nil).I32Const(int32(abi.SlotMeta)).I32Const(0).I32Const(40 << 10).I32Const(4000).Call(g.Read).
		I32Const(0).Op(0x48).If(hosttest.Code(nil).Unreachable()))
	l, m := loadGuest(t, wasm)
	object := &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Tests: []v1alpha1.ModuleTest{{Name: "t", Hook: "validateDelete",
		OldObject: raw(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"n"}}`)}}}}
	if err := l.runTests(t.Context(), object, m, wasm); err != nil {
		t.Error(err)
	}
	old, err := parseOptional(object.Spec.Tests[0].OldObject.Raw)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := testMeta(abi.OpValidateDelete, &host.Call{OldObject: old})
	if err != nil {
		t.Fatal(err)
	}
	var got abi.Meta
	if err := json.Unmarshal(meta.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Operation != abi.OperationDelete || got.Group != "apps" || got.Version != "v1" || got.Kind != "Deployment" ||
		got.Name != "web" || got.Namespace != "n" || got.Time != "1970-01-01T00:00:00Z" {
		t.Errorf("the request is %s", meta.Bytes())
	}
}
