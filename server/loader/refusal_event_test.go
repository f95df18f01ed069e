package loader_test

import (
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
)

// Contract 3 of what is not a Module: an Event tells of what is refused, and what was in force stays. A server refuses a write
// that does not compile, so such an object is one that another server has written, of another version.
func TestRefusalIsTold(t *testing.T) {
	etcd, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	rows := etcd.Client()
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{"http://" + etcd.Addr().String()}}})
	f := &fixture{env, connect(t, env)}

	const admissionV1 = "admissionregistration.k8s.io/v1"
	named := func(apiVersion, kind string, more map[string]any) *unstructured.Unstructured {
		more["policyName"] = "refused"
		return object(apiVersion, kind, "refused", more)
	}
	tests := []struct {
		name  string
		kind  string
		gvr   schema.GroupVersionResource
		obj   *unstructured.Unstructured
		bound schema.GroupVersionResource
		by    *unstructured.Unstructured // nil: it needs no binding
		// change is a text and what another server writes in its place; nil: the object is refused as it is.
		change []string
		says   string
		// met is what a ConfigMap meets all the same.
		met string
	}{
		{name: "rules that do not compile", kind: "ValidatingAdmissionPolicy", gvr: validatingPolicies, bound: validatingBindings,
			obj:    policyOn("refused", "", "configmaps", map[string]any{"expression": "object.metadata.name != 'probe'", "message": "as before"}),
			by:     named(admissionV1, "ValidatingAdmissionPolicyBinding", map[string]any{"validationActions": []any{"Deny"}}),
			change: []string{"name != 'probe'", "name !! 'probe'"}, says: "spec.validations[0].expression:1:22: Syntax error: mismatched input '!'", met: "as before"},
		{name: "mutations that do not compile", kind: "MutatingAdmissionPolicy", gvr: mutatingPolicies, bound: mutatingBindings,
			obj: object(admissionV1, "MutatingAdmissionPolicy", "refused", map[string]any{"matchConstraints": onMaps(), "reinvocationPolicy": "Never",
				"mutations": []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": "[JSONPatch{op: 'add', path: '/data/v', value: 'as before'}]"}}}}),
			by:     named(admissionV1, "MutatingAdmissionPolicyBinding", map[string]any{}),
			change: []string{"[JSONPatch{", "[JSONPatsch{"}, says: "spec.mutations[0].jsonPatch.expression:1:12: ", met: "as before"},
		{name: "Rego that does not compile", kind: "Policy", gvr: weirPolicies, bound: weirBindings,
			obj: weirPolicy("refused", "rego", map[string]any{"source": "package p\n\ndeny contains \"as before\" if input.object.metadata.name == \"probe\"\n"}),
			by:  weirBinding("refused"), change: []string{"deny contains", "deny kontains"}, says: "spec.rego.source:3:27: unexpected if keyword", met: "as before"},
		{name: "a policy without its module", kind: "Policy", gvr: weirPolicies, bound: weirBindings,
			obj: weirPolicy("refused", "wasm", map[string]any{"module": "absent"}), by: weirBinding("refused"),
			says: `no Module "absent" exists`, met: `failed to configure policy: no Module "absent" exists`},
		{name: "a strategy that does not compile", kind: "Strategy", gvr: strategies, obj: onConfigMaps(demands("y")),
			change: []string{"object.data.v ==", "object.data.v !!"}, says: "Syntax error: mismatched input '!'", met: "v must be y"},
		{name: "a strategy without its module", kind: "Strategy", gvr: strategies, obj: onConfigMaps(calls("absent")),
			says: `spec.layers[0].module: no Module "absent" exists`, met: "as it was sent"}, // none was in force before
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			series := `weir_configuration_loads_total{kind="` + tc.kind + `",result="refused"}`
			before := f.metric(t, series)
			made := f.put(t, tc.gvr, tc.obj)
			defer f.remove(t, tc.gvr, tc.obj.GetName())
			if tc.by != nil {
				f.put(t, tc.bound, tc.by)
				defer f.remove(t, tc.bound, tc.by.GetName())
			}
			if tc.change != nil {
				rewrite(t, rows, tc.gvr.Resource, tc.obj.GetName(), tc.change[0], tc.change[1])
			}
			e := f.event(t, tc.kind, tc.obj.GetName(), tc.says)
			for path, want := range map[string]string{"type": "Warning", "reason": "Refused", "reportingComponent": "weir-loader",
				"involvedObject.apiVersion": tc.obj.GetAPIVersion(), "involvedObject.uid": string(made.GetUID())} {
				if got, _, _ := unstructured.NestedString(e.Object, strings.Split(path, ".")...); got != want {
					t.Errorf("%s of the event is %q, want %q", path, got, want)
				}
			}
			if n := f.metric(t, series); n <= before {
				t.Errorf("%v loads of this kind were refused, before it were %v", n, before)
			}
			if got := f.met(t); !strings.Contains(got, tc.met) {
				t.Errorf("the next request is %q, want %q", got, tc.met)
			}
		})
	}
}

func (f *fixture) remove(t *testing.T, gvr schema.GroupVersionResource, name string) {
	t.Helper()
	if err := f.client.Resource(gvr).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// rewrite has an object in etcd say something else, as its second generation.
func rewrite(t *testing.T, rows *clientv3.Client, resource, name, text, by string) {
	t.Helper()
	for written := false; !written; {
		all, err := rows.Get(t.Context(), "/registry/", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all.Kvs, func(kv *mvccpb.KeyValue) bool { return strings.HasSuffix(string(kv.Key), "/"+resource+"/"+name) })
		if i < 0 {
			t.Fatalf("there is no row of %s %s", resource, name)
		}
		key, value := string(all.Kvs[i].Key), string(all.Kvs[i].Value)
		if !strings.Contains(value, text) || !strings.Contains(value, `"generation":1,`) {
			t.Fatalf("there is no %q of the first generation in %s", text, value)
		}
		value = strings.Replace(strings.Replace(value, text, by, 1), `"generation":1,`, `"generation":2,`, 1)
		// Its status may be written at the same time.
		done, err := rows.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision(key), "=", all.Kvs[i].ModRevision)).
			Then(clientv3.OpPut(key, value)).Commit()
		if err != nil {
			t.Fatal(err)
		}
		written = done.Succeeded
	}
}
