package loader_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	weirPolicies = schema.GroupVersionResource{Group: "weir.dev", Version: "v1alpha1", Resource: "policies"}
	weirBindings = schema.GroupVersionResource{Group: "weir.dev", Version: "v1alpha1", Resource: "policybindings"}
)

// onMaps are the requests that the policies of these tests concern.
func onMaps() map[string]any {
	return map[string]any{"resourceRules": []any{map[string]any{
		"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"}}}}
}

// weirPolicy is a Policy on ConfigMaps; by is its member wasm or rego.
func weirPolicy(name, by string, spec map[string]any) *unstructured.Unstructured {
	return object("weir.dev/v1alpha1", "Policy", name, map[string]any{"matchConstraints": onMaps(), by: spec})
}

func weirBinding(name string) *unstructured.Unstructured {
	return object("weir.dev/v1alpha1", "PolicyBinding", name, map[string]any{"policyName": name})
}

// A module judges and changes by one policy: no request meets two versions of it.
func TestPolicyByAModule(t *testing.T) {
	f := start(t)
	f.put(t, weirPolicies, weirPolicy("stamped", "wasm", map[string]any{"module": "stamp"}))
	f.put(t, weirBindings, weirBinding("stamped"))
	if _, err := f.write(t, "mine"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `no Module "stamp" exists`) {
		t.Fatalf("without its module: %v", err)
	}
	f.ready(t, modules, module("stamp", inline(stampPolicy("0001"))))
	if v := f.serves(t); v != "0001" {
		t.Fatalf("it serves %q", v)
	}
	f.settled(t, weirPolicies, "stamped")
	f.ready(t, modules, module("stamp", inline(stampPolicy("0002"))))
	if v := f.serves(t); v != "0002" {
		t.Fatalf("it serves %q after the swap", v)
	}
	// What is broken changes nothing.
	f.put(t, modules, module("stamp", inline([]byte("no module"))))
	f.settled(t, modules, "stamp")
	if v := f.serves(t); v != "0002" {
		t.Fatalf("it serves %q after a broken version", v)
	}
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.client = connect(t, f.Environment)
	if v := f.serves(t); v != "0002" {
		t.Fatalf("it serves %q after a restart", v)
	}
}

// While policies of all engines are replaced, and broken ones are written, no request fails and none meets a mix.
func TestPolicyHammer(t *testing.T) {
	rounds, each := 200, 10
	if testing.Short() {
		rounds = 50
	}
	f := start(t)
	expression := func(i, version int) *unstructured.Unstructured {
		return object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", fmt.Sprintf("cel-%d", i), map[string]any{
			"matchConstraints": onMaps(),
			"validations":      []any{map[string]any{"expression": fmt.Sprintf("object.data.v != 'version-%d'", version)}}})
	}
	rules := func(i, version int) *unstructured.Unstructured {
		return weirPolicy(fmt.Sprintf("rego-%d", i), "rego", map[string]any{
			"source": fmt.Sprintf("package admission\n\ndeny contains \"no\" if input.object.data.v == \"version-%d\"\n", version)})
	}
	for i := range each {
		f.put(t, validatingPolicies, expression(i, 0))
		f.put(t, validatingBindings, object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", fmt.Sprintf("cel-%d", i),
			map[string]any{"policyName": fmt.Sprintf("cel-%d", i), "validationActions": []any{"Deny"}}))
		f.put(t, weirPolicies, rules(i, 0))
		f.put(t, weirBindings, weirBinding(fmt.Sprintf("rego-%d", i)))
		f.put(t, weirPolicies, weirPolicy(fmt.Sprintf("wasm-%d", i), "wasm", map[string]any{"module": "stamp"}))
	}
	f.ready(t, modules, module("stamp", inline(stampPolicy("0000"))))
	for i := range each {
		f.put(t, weirBindings, weirBinding(fmt.Sprintf("wasm-%d", i)))
	}
	var done atomic.Bool
	var writers sync.WaitGroup
	var writes atomic.Int64
	defer writers.Wait() // also where the test ends early
	defer done.Store(true)
	for range hammerWriters {
		writers.Go(func() {
			for !done.Load() {
				if _, err := f.write(t, "mine"); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				writes.Add(1)
			}
		})
	}
	for n := 1; n <= rounds && !t.Failed(); n++ {
		i := n % each
		f.put(t, validatingPolicies, expression(i, n))
		f.put(t, weirPolicies, rules(i, n))
		broken := expression(i, n)
		broken.SetName("broken")
		if err := unstructured.SetNestedSlice(broken.Object, []any{map[string]any{"expression": "object."}}, "spec", "validations"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.Resource(validatingPolicies).Create(t.Context(), broken, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a broken policy: %v", err)
		}
		if n%(rounds/10) == 0 {
			f.put(t, modules, module("stamp", inline(stampPolicy(fmt.Sprintf("%04d", n)))))
		}
	}
	done.Store(true)
	writers.Wait()
	t.Logf("%d writes met %d changes of policies", writes.Load(), 2*rounds)
}
