package loader_test

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// burner is a guest that uses some 2,000,000 units of fuel in each hook.
func burner() []byte {
	const turns = 200_000
	g := hosttest.NewGuest("burner", abi.OpValidateCreate, abi.OpValidateDelete, abi.OpAdmitValidate)
	return g.Finish(hosttest.Code(nil).Loop(hosttest.Code(nil).
		LocalGet(1).I32Const(1).Op(opI32Add).LocalTee(1).I32Const(turns).Op(opI32LtS).BrIf(0)))
}

// TestRequestBudget: the modules of one request, those of its layers and those of its policies, have one budget together;
// each object of a deletecollection has its own.
func TestRequestBudget(t *testing.T) {
	// Enough for two calls, not for three.
	f := &fixture{Environment: servertest.Start(t, servertest.Options{Config: server.Config{ModuleRequestFuel: 3_500_000}})}
	f.client = connect(t, f.Environment)
	f.ready(t, modules, module("burner", inline(burner())))
	f.ready(t, strategies, onConfigMaps(calls("burner"), calls("burner")))
	if _, err := f.write(t, "x"); err != nil {
		t.Fatalf("two layers: %v", err)
	}
	f.put(t, weirPolicies, weirPolicy("burning", "wasm", map[string]any{"module": "burner"}))
	f.put(t, weirBindings, weirBinding("burning"))
	f.settled(t, weirPolicies, "burning")
	_, err := f.write(t, "x")
	if err == nil || !strings.Contains(err.Error(), "the request's fuel is exhausted") || !strings.Contains(err.Error(), "burning") {
		t.Errorf("two layers and a policy: %v", err)
	}
	// One layer leaves enough for the policy.
	f.ready(t, strategies, onConfigMaps(calls("burner")))
	for _, name := range []string{"a", "b", "c"} {
		if _, err := f.client.Resource(configMaps).Namespace("default").Create(t.Context(), configMap(name, "x"), metav1.CreateOptions{}); err != nil {
			t.Fatalf("a layer and a policy: %v", err)
		}
	}
	// A module that is given more has it in any request.
	f.ready(t, modules, module("burner", inline(burner()), map[string]any{"limits": map[string]any{"fuel": 100_000_000}}))
	f.ready(t, strategies, onConfigMaps(calls("burner"), calls("burner"), calls("burner"), calls("burner")))
	if _, err := f.write(t, "x"); err != nil {
		t.Errorf("four layers and a policy with fuel of their own: %v", err)
	}
	f.ready(t, modules, module("burner", inline(burner())))
	f.ready(t, strategies, onConfigMaps(calls("burner"), calls("burner")))
	if err := f.client.Resource(configMaps).Namespace("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("each object of a collection has a budget of its own: %v", err)
	}
}

// TestRequestDeadline: the time of a request is shared too.
func TestRequestDeadline(t *testing.T) {
	f := &fixture{Environment: servertest.Start(t, servertest.Options{Config: server.Config{ModuleRequestTimeout: time.Nanosecond}})}
	f.client = connect(t, f.Environment)
	f.ready(t, modules, module("burner", inline(burner())))
	f.ready(t, strategies, onConfigMaps(calls("burner")))
	if _, err := f.write(t, "x"); !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("a request without time for modules: %v", err)
	}
}
