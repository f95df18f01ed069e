package loader_test

import (
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// listener collects the warnings of a client.
type listener struct {
	mu   sync.Mutex
	list []string
}

func (h *listener) HandleWarningHeader(code int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if code == 299 {
		h.list = append(h.list, text)
	}
}

// What names a kind or resource that is not served is told of when it is written, and in status.
func TestWhatIsNotServedIsToldOf(t *testing.T) {
	f := start(t)
	h, config := &listener{}, f.RESTConfig()
	config.WarningHandler = h
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f.client = client
	policy := demanding("x")
	kind := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}
	policy.Object["spec"].(map[string]any)["paramKind"] = kind
	f.put(t, validatingPolicies, policy)
	f.put(t, weirPolicies, object("weir.dev/v1alpha1", "Policy", "p", map[string]any{"paramKind": kind,
		"matchConstraints": demanding("").Object["spec"].(map[string]any)["matchConstraints"],
		"rego":             map[string]any{"source": "package p\n\ndeny contains \"no\" if false\n"}}))
	f.put(t, weirBindings, object("weir.dev/v1alpha1", "PolicyBinding", "b", map[string]any{"policyName": "p",
		"paramRef": map[string]any{"name": "a", "namespace": "default", "parameterNotFoundAction": "Deny"}}))
	f.put(t, modules, module("stamp", inline(stamp("v001")), grant("lookup:configmap", "lookup:pods", "lookup:deployments", "lookup:nonsense")))
	f.put(t, strategies, object("weir.dev/v1alpha1", "Strategy", "daemonsets.apps", map[string]any{"group": "apps", "resource": "daemonsets", "layers": []any{
		map[string]any{"name": "l", "cel": map[string]any{"defaults": []any{
			map[string]any{"path": "spec.replcas", "value": "1"},
			map[string]any{"path": "spec.template.metadata.annotations['a.b/c']", "value": "'x'"},
			map[string]any{"path": "spec.template.spec.containers[*].limits.cpu", "value": "'1'"},
			map[string]any{"path": "spec.template.spec.containers[*].resources.limits.cpu", "value": "'1'"}}}}}}))
	const missing = "spec.paramKind: no kind Thing of example.com/v1 is served: bindings with a paramRef can judge no request"
	want := []string{missing, missing,
		"spec.capabilities[0]: lookup:configmap: no such resource is served; did you mean lookup:configmaps",
		"spec.capabilities[2]: lookup:deployments: no such resource is served; did you mean lookup:deployments.apps",
		"spec.capabilities[3]: lookup:nonsense: no such resource is served",
		"spec.layers[0].cel.defaults[0].path: the schema of daemonsets.apps has no field spec.replcas: what the rule writes there is not checked, and what clients write is dropped",
		"spec.layers[0].cel.defaults[2].path: the schema of daemonsets.apps has no field spec.template.spec.containers[*].limits: what the rule writes there is not checked, and what clients write is dropped"}
	if !slices.Equal(h.list, want) {
		t.Errorf("warnings are %q, want %q", h.list, want)
	}
	ready := func(reason string) {
		t.Helper()
		f.until(t, client.Resource(validatingPolicies), "demanding", func(obj *unstructured.Unstructured) bool { return condition(obj, "Ready").Reason == reason })
		f.until(t, client.Resource(weirPolicies), "p", func(obj *unstructured.Unstructured) bool { return condition(obj, "Ready").Reason == reason })
		f.until(t, client.Resource(weirBindings), "b", func(obj *unstructured.Unstructured) bool { return condition(obj, "Ready").Reason == reason })
	}
	ready("ParamKindNotFound")
	f.put(t, crds, thingsOf("integer"))
	ready("InForce")
	if err := client.Resource(crds).Delete(t.Context(), "things.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ready("ParamKindNotFound")
}
