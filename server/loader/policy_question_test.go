package loader_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"weir.dev/weir/abi"
)

// stampedWith is a Policy by the module stamp with settings.
func stampedWith(name string, n int) *unstructured.Unstructured {
	return weirPolicy(name, "wasm", map[string]any{"module": "stamp", "settings": map[string]any{"n": int64(n)}})
}

// A question loads modules with settings for itself: they are gone with it.
func TestImpactKeepsNoModules(t *testing.T) {
	f := start(t)
	f.fill(t, 5)
	f.ready(t, modules, module("stamp", inline(stampPolicy("0001"))))
	loaded := f.metric(t, "weir_modules_loaded")
	for i := range 3 {
		status := ask(t, f.client, impactOf(nil, stampedWith("a", i), weirBinding("a"), stampedWith("b", i), weirBinding("b"), stampedWith("c", -1), weirBinding("c")))
		if r := status.Resources[0]; !status.Complete || r.Changed < 5 {
			t.Fatalf("got %+v", status)
		}
		if n := f.metric(t, "weir_modules_loaded"); n != loaded {
			t.Errorf("%v modules are loaded after a question, %v before", n, loaded)
		}
	}
	// What is in force is shared with it.
	f.ready(t, weirPolicies, stampedWith("kept", 7))
	loaded = f.metric(t, "weir_modules_loaded")
	if status := ask(t, f.client, impactOf(nil, stampedWith("a", 7), weirBinding("a"))); !status.Complete || f.metric(t, "weir_modules_loaded") != loaded {
		t.Errorf("got %+v", status)
	}
	many := func(n int, of func(name string, i int) *unstructured.Unstructured) *unstructured.Unstructured {
		var list []*unstructured.Unstructured
		for i := range n {
			list = append(list, of(fmt.Sprint("p", i), i+100))
		}
		return impactOf(nil, list...)
	}
	tests := []struct {
		name, want string
		question   *unstructured.Unstructured
	}{
		{"many settings", "a question may have 8 settings of modules that are not in force", many(9, stampedWith)},
		{"many policies", "must have at most 200 policies, and has 201", many(201, func(name string, _ int) *unstructured.Unstructured {
			return weirPolicy(name, "rego", map[string]any{"source": "package p"})
		})},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := f.client.Resource(policyImpacts).Create(t.Context(), tc.question, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if n := f.metric(t, "weir_modules_loaded"); n != loaded {
				t.Errorf("%v modules are loaded after a question, %v before", n, loaded)
			}
		})
	}
}

// allow lets a user do something.
func (f *fixture) allow(t *testing.T, user string, rules ...any) {
	t.Helper()
	rbac := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
	}
	f.put(t, rbac("clusterroles"), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": user}, "rules": rules}})
	f.put(t, rbac("clusterrolebindings"), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": user},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}}})
}

func may(verb, group, resource string) any {
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{verb}}
}

// A question gives nobody what a policy of theirs would not: who may not create policies has no module run with settings of
// theirs, nor look anything up, nor the authorizer asked for others.
func TestImpactGivesNothingAway(t *testing.T) {
	f := start(t)
	f.fill(t, 5)
	f.makeConfigMap(t, "limits", "seven")
	f.ready(t, modules, module("seer", inline(seerOn(abi.OpAdmitValidate, "seer", seesLimits, []string{"lookup:configmaps"}, abi.OpAdmitValidate)), grant("lookup:configmaps")))
	f.ready(t, weirPolicies, weirPolicy("seeing", "wasm", map[string]any{"module": "seer"}))
	f.allow(t, "asker", may("create", "weir.dev", "policyimpacts"), may("list", "", "configmaps"))
	f.allow(t, "reader", may("create", "weir.dev", "policyimpacts"), may("list", "", "configmaps"), may("get", "", "namespaces"))
	f.allow(t, "author", may("create", "weir.dev", "policyimpacts"), may("list", "", "configmaps"), may("get", "", "namespaces"),
		may("create", "weir.dev", "policies"), may("create", "admissionregistration.k8s.io", "validatingadmissionpolicies"))
	as := func(name string) dynamic.Interface {
		config := rest.CopyConfig(f.RESTConfig())
		config.Impersonate.UserName = name
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	own := weirPolicy("own", "wasm", map[string]any{"module": "seer"})
	if _, err := as("reader").Resource(policyImpacts).Create(t.Context(), impactOf(nil, own), metav1.CreateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "spec.objects[0].spec.wasm: Forbidden: to ask what a module would do takes permission to create policies.weir.dev") {
		t.Errorf("got %v", err)
	}
	asks := demanding("x")
	asks.Object["spec"].(map[string]any)["validations"] = []any{map[string]any{
		"expression": "authorizer.serviceAccount('default', 'other').group('').resource('secrets').check('get').allowed()", "message": "the other may not"}}
	namespaced := demanding("x")
	namespaced.Object["spec"].(map[string]any)["validations"] = []any{map[string]any{
		"expression": "namespaceObject.metadata.name == 'nowhere'", "message": "the namespace is read"}}
	tests := []struct {
		name, user string
		of         *unstructured.Unstructured
		verdict    string
		message    string // part of that of the findings, or why nothing was counted
	}{
		{"a look-up of one who may not", "reader", weirBindingOf("mine", "seeing"), "Failed", "status 101"},
		{"a look-up of one who may", "author", weirBindingOf("mine", "seeing"), "Denied", "seven"},
		{"a module that gets the namespace", "asker", weirBindingOf("mine", "seeing"), "", `no permission to get namespaces, which policy "seeing" reads`},
		{"the authorizer for one who may not", "reader", asks, "Failed", "authorizer"},
		{"the authorizer for one who may", "author", asks, "Denied", "the other may not"},
		{"a namespace for one who may not", "asker", namespaced, "", `no permission to get namespaces`},
		{"a namespace for one who may", "reader", namespaced, "Denied", "the namespace is read"},
		{"nothing special", "asker", demanding("z"), "Denied", "v must be z"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			status := ask(t, as(tc.user), impactOf(nil, tc.of))
			if tc.verdict == "" {
				if len(status.Resources) != 1 || !strings.Contains(status.Resources[0].NotCounted, tc.message) || len(status.Findings) > 0 {
					t.Errorf("got %+v", status)
				}
				return
			}
			if len(status.Findings) == 0 || status.Findings[0].Verdict != tc.verdict || !strings.Contains(status.Findings[0].Message, tc.message) {
				t.Errorf("got %+v", status)
			}
			if told := strings.Contains(strings.Join(status.Notes, "\n"), "look nothing up"); told != (tc.user != "author") {
				t.Errorf("got notes %q", status.Notes)
			}
		})
	}
}

func weirBindingOf(name, policy string) *unstructured.Unstructured {
	return object("weir.dev/v1alpha1", "PolicyBinding", name, map[string]any{"policyName": policy})
}
