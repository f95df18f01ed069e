package server_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// Rules are in force as they are stored also where a restored etcd has lost the ones that were, and the generation of these was
// given again to others.
func TestGenerationThatIsGivenAgain(t *testing.T) {
	etcd, address := startEtcd(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	in := func(group, version, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	}
	spec := func(s map[string]any) option { return with(s, "spec") }
	all.create(in("weir.dev", "v1alpha1", "strategies"), "", "Strategy", "serviceaccounts", spec(map[string]any{"group": "", "resource": "serviceaccounts", "layers": []any{
		map[string]any{"name": "one", "cel": map[string]any{"validations": []any{map[string]any{"expression": "false", "message": "strategy one"}}}}}}))
	rules := func(message string) map[string]any {
		return map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"}}}},
			"validations":      []any{map[string]any{"expression": "false", "message": message}},
		}
	}
	const admission = "admissionregistration.k8s.io"
	all.create(in(admission, "v1", "validatingadmissionpolicies"), "", "ValidatingAdmissionPolicy", "policy", spec(rules("policy one")))
	all.create(in(admission, "v1", "validatingadmissionpolicybindings"), "", "ValidatingAdmissionPolicyBinding", "policy",
		spec(map[string]any{"policyName": "policy", "validationActions": []any{"Deny"}}))
	all.define("widget")
	// create returns the answer to a creation.
	create := func(gvr schema.GroupVersionResource, kind string) string {
		_, err := all.client.Resource(gvr).Namespace("default").Create(t.Context(), build(gvr, "default", kind, "a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return fmt.Sprint(err)
	}
	accounts := in("", "v1", "serviceaccounts")
	if got := create(configMaps, "ConfigMap") + create(accounts, "ServiceAccount"); !strings.Contains(got, "policy one") || !strings.Contains(got, "strategy one") {
		t.Fatal(got)
	}
	for _, tc := range []struct{ key, old, new string }{
		{"weir.dev/strategies/serviceaccounts", "strategy one", "strategy two"},
		{admission + "/validatingadmissionpolicies/policy", "policy one", "policy two"},
		{"apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", `"kind":"Widget"`, `"kind":"Gadget"`},
	} {
		key := "/registry/" + tc.key
		row, err := etcd.Client().Get(t.Context(), key)
		if err != nil || len(row.Kvs) != 1 || !strings.Contains(string(row.Kvs[0].Value), tc.old) {
			t.Fatalf("%s: %v, %v", key, err, row)
		}
		if _, err := etcd.Client().Put(t.Context(), key, strings.ReplaceAll(string(row.Kvs[0].Value), tc.old, tc.new)); err != nil {
			t.Fatal(err)
		}
	}
	all.eventually("policy", func() error { return unless(strings.Contains(create(configMaps, "ConfigMap"), "policy two")) })
	all.eventually("strategy", func() error { return unless(strings.Contains(create(accounts, "ServiceAccount"), "strategy two")) })
	all.eventually("kind", func() error { return unless(create(widgets, "Gadget") == fmt.Sprint(error(nil))) })
	key := "/registry/" + admission + "/validatingadmissionpolicybindings/policy"
	row, err := etcd.Client().Get(t.Context(), key)
	if err != nil || len(row.Kvs) != 1 {
		t.Fatalf("%v, %v", err, row)
	}
	if _, err := etcd.Client().Put(t.Context(), key, strings.Replace(string(row.Kvs[0].Value), `"Deny"`, `"Warn"`, 1)); err != nil {
		t.Fatal(err)
	}
	all.eventually("binding", func() error { return unless(create(configMaps, "ConfigMap") == fmt.Sprint(error(nil))) })
}
