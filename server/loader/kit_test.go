package loader_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/server/servertest"
)

var (
	modules    = schema.GroupVersionResource{Group: "weir.dev", Version: "v1alpha1", Resource: "modules"}
	strategies = schema.GroupVersionResource{Group: "weir.dev", Version: "v1alpha1", Resource: "strategies"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	events     = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// patience bounds every wait of a test; the machine may be busy.
const patience = 30 * time.Second

// fixture is a server and a client of it.
type fixture struct {
	*servertest.Environment
	client dynamic.Interface
}

func start(t testing.TB) *fixture {
	t.Helper()
	env := servertest.Start(t, servertest.Options{})
	return &fixture{env, connect(t, env)}
}

func connect(t testing.TB, env *servertest.Environment) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// put creates an object, or replaces its spec.
func (f *fixture) put(t testing.TB, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	made, err := f.client.Resource(gvr).Create(t.Context(), obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch, patchErr := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": obj.Object["spec"]}})
		if patchErr != nil {
			t.Fatal(patchErr)
		}
		made, err = f.client.Resource(gvr).Patch(t.Context(), obj.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatalf("put %s %s: %v", gvr.Resource, obj.GetName(), err)
	}
	return made
}

// until waits for a state of an object.
func (f *fixture) until(t testing.TB, r dynamic.ResourceInterface, name string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := r.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var last *unstructured.Unstructured
	for e := range w.ResultChan() {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("watch of %s: %v", name, apierrors.FromObject(e.Object))
		}
		if last = obj; is(obj) {
			return obj
		}
	}
	t.Fatalf("%s did not get there; it is %v", name, last)
	return nil
}

// condition returns a condition of the generation of an object.
func condition(obj *unstructured.Unstructured, kind string) metav1.Condition {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range list {
		raw, _ := json.Marshal(item)
		var c metav1.Condition
		if json.Unmarshal(raw, &c) == nil && c.Type == kind && c.ObservedGeneration == obj.GetGeneration() {
			return c
		}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown}
}

// settled waits until it is known whether the newest generation is in force.
func (f *fixture) settled(t testing.TB, gvr schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	return f.until(t, f.client.Resource(gvr), name, func(obj *unstructured.Unstructured) bool {
		return condition(obj, "Ready").Status != metav1.ConditionUnknown
	})
}

// ready puts an object and waits until it is in force.
func (f *fixture) ready(t testing.TB, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	f.put(t, gvr, obj)
	got := f.settled(t, gvr, obj.GetName())
	if c := condition(got, "Ready"); c.Status != metav1.ConditionTrue {
		t.Fatalf("%s %s is not ready: %s: %s", gvr.Resource, obj.GetName(), c.Reason, c.Message)
	}
	return got
}

// write creates a ConfigMap, as a dry run, and returns what would be stored.
func (f *fixture) write(t testing.TB, v string) (*unstructured.Unstructured, error) {
	t.Helper()
	return f.client.Resource(configMaps).Namespace("default").Create(t.Context(), configMap("probe", v), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// serves returns the version of the stamp module that serves writes; "" is none.
func (f *fixture) serves(t testing.TB) string {
	t.Helper()
	obj, err := f.write(t, "")
	if err != nil {
		t.Fatal(err)
	}
	v, _, _ := unstructured.NestedString(obj.Object, "data", "v")
	return v
}

func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
}

func configMap(name, v string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"},
		"data": map[string]any{"v": v}}}
}

func module(name string, source map[string]any, more ...map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"source": source}
	for _, m := range more {
		for k, v := range m {
			spec[k] = v
		}
	}
	return object("weir.dev/v1alpha1", "Module", name, spec)
}

func inline(wasm []byte) map[string]any {
	return map[string]any{"inline": base64.StdEncoding.EncodeToString(wasm)}
}

// onConfigMaps is the strategy of ConfigMaps with some layers.
func onConfigMaps(layers ...map[string]any) *unstructured.Unstructured {
	list := make([]any, len(layers))
	for i, l := range layers {
		l["name"] = fmt.Sprintf("layer-%d", i)
		list[i] = l
	}
	return object("weir.dev/v1alpha1", "Strategy", "configmaps", map[string]any{"group": "", "resource": "configmaps", "layers": list})
}

func calls(module string) map[string]any {
	return map[string]any{"module": map[string]any{"name": module}}
}

func callsWith(module string, settings map[string]any) map[string]any {
	return map[string]any{"module": map[string]any{"name": module, "settings": settings}}
}

// Opcodes without immediates.
const (
	opI32Eq  = 0x46
	opI32Ne  = 0x47
	opI32GeS = 0x4e
	opI32LtS = 0x48
	opI32Add = 0x6a
	opI32Or  = 0x72
)

// bufferAt is free memory of a hosttest.Guest.
const bufferAt = 40 << 10

// stamp is a guest that writes its version, of four characters, to data.v of every object that is written, and then
// refuses the object unless it finds it there: a request that met two versions would fail.
func stamp(version string) []byte {
	return stampOn(version, [2]abi.Op{abi.OpPrepareForCreate, abi.OpPrepareForUpdate}, [2]abi.Op{abi.OpValidateCreate, abi.OpValidateUpdate})
}

// stampPolicy is stamp for admission.
func stampPolicy(version string) []byte {
	return stampOn(version, [2]abi.Op{abi.OpAdmitMutate, abi.OpAdmitMutate}, [2]abi.Op{abi.OpAdmitValidate, abi.OpAdmitValidate})
}

func stampOn(version string, changing, judging [2]abi.Op) []byte {
	if len(version) != 4 {
		panic("a version has four characters")
	}
	hooks := []abi.Op{changing[0], judging[0]}
	if changing[1] != changing[0] {
		hooks = append(hooks, changing[1], judging[1])
	}
	g := hosttest.NewGuest("stamp", hooks...)
	want := int32(uint32(version[0]) | uint32(version[1])<<8 | uint32(version[2])<<16 | uint32(version[3])<<24)
	path, pathLen := g.Text("data.v")
	prepare := g.WriteText(nil, abi.SlotPatch, `[{"op":"add","path":"/data/v","value":"`+version+`"}]`)
	refuse := g.WriteText(nil, abi.SlotResult, `{"errors":[{"type":"FieldValueInvalid","field":"data.v","detail":"was stamped by another version than `+version+`"}]}`)
	validate := hosttest.Code(nil).
		I32Const(int32(abi.SlotObject)).I32Const(path).I32Const(pathLen).I32Const(bufferAt).I32Const(100).Call(g.Query).Drop().
		I32Const(bufferAt + 1).Load(0).I32Const(want).Op(opI32Ne).If(refuse)
	on := func(c hosttest.Code, a, b abi.Op, do hosttest.Code) hosttest.Code {
		return c.LocalGet(0).I32Const(int32(a)).Op(opI32Eq).LocalGet(0).I32Const(int32(b)).Op(opI32Eq).Op(opI32Or).If(do)
	}
	return g.Finish(on(on(nil, changing[0], changing[1], prepare), judging[0], judging[1], validate))
}

// sayer is a guest that warns with the setting "say" of its layer, and refuses settings that have "bad".
func sayer() []byte {
	g := hosttest.NewGuest("sayer", abi.OpConfigure, abi.OpValidateCreate)
	query := func(path string, cap int32) hosttest.Code {
		at, n := g.Text(path)
		return hosttest.Code(nil).I32Const(int32(abi.SlotSettings)).I32Const(at).I32Const(n).I32Const(bufferAt + cap).I32Const(1000).Call(g.Query)
	}
	const head = `{"warnings":[`
	at, n := g.Text(head)
	configure := query("bad", 0).I32Const(0).Op(opI32GeS).If(g.WriteText(nil, abi.SlotResult, `{"denied":{"message":"these settings are bad"}}`))
	say := hosttest.Code(nil).I32Const(bufferAt).I32Const(at).I32Const(n).Op(0xfc, 10, 0, 0) // memory.copy
	say = append(say, query("say", n)...)
	say = say.LocalTee(1).I32Const(0).Op(opI32LtS).If(hosttest.Code(nil).I32Const(int32(abi.StatusOK)).Return()).
		I32Const(bufferAt+n).LocalGet(1).Op(opI32Add).I32Const(']'|'}'<<8).Op(0x3b, 0, 0). // i32.store16
		I32Const(int32(abi.SlotResult)).I32Const(bufferAt).LocalGet(1).I32Const(n + 2).Op(opI32Add).Call(g.Write).Drop()
	return g.Finish(hosttest.Code(nil).
		LocalGet(0).I32Const(int32(abi.OpConfigure)).Op(opI32Eq).If(configure).
		LocalGet(0).I32Const(int32(abi.OpValidateCreate)).Op(opI32Eq).If(say))
}
