package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
)

// awaitTimeout bounds the wait for what the server does by itself.
const awaitTimeout = 60 * time.Second

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// tester speaks to a server as administrator.
type tester struct {
	*testing.T
	env    *servertest.Environment
	client dynamic.Interface
}

func newTester(t *testing.T, options servertest.Options) *tester {
	t.Helper()
	env := servertest.Start(t, options)
	client, err := dynamic.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &tester{T: t, env: env, client: client}
}

// in returns t for a subtest.
func (t *tester) in(sub *testing.T) *tester { return &tester{T: sub, env: t.env, client: t.client} }

func (t *tester) namespace(name string) string {
	t.Helper()
	t.create(namespaces, "", "Namespace", name)
	return name
}

type object struct {
	*unstructured.Unstructured
	resource schema.GroupVersionResource
}

// option changes an object before it is created.
type option func(*unstructured.Unstructured)

func ownedBy(owner object, blocks bool) option {
	return func(obj *unstructured.Unstructured) {
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &blocks,
		}))
	}
}

func finalizers(names ...string) option {
	return func(obj *unstructured.Unstructured) { obj.SetFinalizers(names) }
}

func with(value any, path ...string) option {
	return func(obj *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func build(gvr schema.GroupVersionResource, namespace, kind, name string, options ...option) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	obj.SetName(name)
	obj.SetNamespace(namespace)
	for _, o := range options {
		o(obj)
	}
	return obj
}

func (t *tester) create(gvr schema.GroupVersionResource, namespace, kind, name string, options ...option) object {
	t.Helper()
	obj, err := t.client.Resource(gvr).Namespace(namespace).Create(t.Context(), build(gvr, namespace, kind, name, options...), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s %s: %v", kind, name, err)
	}
	return object{obj, gvr}
}

func (t *tester) configMap(namespace, name string, options ...option) object {
	t.Helper()
	return t.create(configMaps, namespace, "ConfigMap", name, options...)
}

func (t *tester) of(o object) dynamic.ResourceInterface {
	return t.client.Resource(o.resource).Namespace(o.GetNamespace())
}

// get returns the object as it is, nil when it is gone.
func (t *tester) get(o object) *unstructured.Unstructured {
	t.Helper()
	obj, err := t.of(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && obj.GetUID() != o.GetUID() {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (t *tester) delete(o object, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := t.of(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatalf("delete %s: %v", o.GetName(), err)
	}
}

func (t *tester) patch(o object, patch string) {
	t.Helper()
	if _, err := t.of(o).Patch(t.Context(), o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch %s: %v", o.GetName(), err)
	}
}

// await watches an object until it is as wanted; nil is an object that is gone.
func (t *tester) await(o object, what string, wanted func(obj *unstructured.Unstructured) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	for {
		list, err := t.of(o).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + o.GetName()})
		if err != nil {
			t.Fatalf("waiting for %s %s: %v", o.GetName(), what, err)
		}
		var obj *unstructured.Unstructured
		if len(list.Items) > 0 && list.Items[0].GetUID() == o.GetUID() {
			obj = &list.Items[0]
		}
		if wanted(obj) {
			return
		}
		w, err := t.of(o).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + o.GetName(), ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			t.Fatalf("waiting for %s %s: %v", o.GetName(), what, err)
		}
		for e := range w.ResultChan() {
			obj, _ := e.Object.(*unstructured.Unstructured)
			if e.Type == watch.Deleted {
				obj = nil
			}
			if e.Type != watch.Error && wanted(obj) {
				w.Stop()
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("%s %s is not %s", o.GetKind(), o.GetName(), what)
		}
	}
}

func (t *tester) awaitGone(objects ...object) {
	t.Helper()
	for _, o := range objects {
		t.await(o, "gone", func(obj *unstructured.Unstructured) bool { return obj == nil })
	}
}

func (t *tester) awaitOwners(o object, n int) {
	t.Helper()
	t.await(o, fmt.Sprintf("with %d owners", n), func(obj *unstructured.Unstructured) bool {
		if obj == nil {
			t.Fatalf("%s is gone", o.GetName())
		}
		return len(obj.GetOwnerReferences()) == n
	})
}

// settle waits until the collector has done what was due before: it works on an object created now.
// Objects are worked on side by side, so that this is a likelihood, not a proof.
func (t *tester) settle(namespace string) {
	t.Helper()
	owner := t.configMap(namespace, "settle")
	dependent := t.configMap(namespace, "settled", ownedBy(owner, false))
	t.delete(owner, metav1.DeletePropagationBackground)
	t.awaitGone(dependent)
}

func definition(singular string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(strings.NewReplacer("NAME", singular, "KIND", strings.ToUpper(singular[:1])+singular[1:]).Replace(`{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "NAMEs.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "NAMEs", "singular": "NAME", "kind": "KIND", "listKind": "KINDList"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`)), obj); err != nil {
		panic(err)
	}
	return obj
}

func (t *tester) define(singular string) object {
	t.Helper()
	obj, err := t.client.Resource(definitions).Create(t.Context(), definition(singular), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := object{obj, definitions}
	t.await(o, "established", func(obj *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
				return true
			}
		}
		return false
	})
	return o
}

func TestGarbageCollection(t *testing.T) {
	all := newTester(t, servertest.Options{})
	all.define("widget")
	const block, free = true, false
	tests := []struct {
		name string
		run  func(t *tester, ns string)
	}{
		{"background deletes the tree", func(t *tester, ns string) {
			owner := t.configMap(ns, "owner")
			child := t.configMap(ns, "child", ownedBy(owner, block))
			grandchild := t.configMap(ns, "grandchild", ownedBy(child, free))
			other := t.configMap(ns, "other")
			t.delete(owner, metav1.DeletePropagationBackground)
			t.awaitGone(owner, child, grandchild)
			if t.get(other) == nil {
				t.Error("an object without owners is gone")
			}
		}},
		{"background leaves what has another owner", func(t *tester, ns string) {
			a, b := t.configMap(ns, "a"), t.configMap(ns, "b")
			child := t.configMap(ns, "child", ownedBy(a, block), ownedBy(b, free))
			t.delete(a, metav1.DeletePropagationBackground)
			t.awaitOwners(child, 1)
			t.delete(b, metav1.DeletePropagationBackground)
			t.awaitGone(child)
		}},
		{"an owner that never was", func(t *tester, ns string) {
			real, fake := t.configMap(ns, "real"), t.configMap(ns, "fake")
			fake.Unstructured = fake.DeepCopy()
			fake.SetUID("00000000-0000-4000-8000-000000000000")
			t.awaitGone(object{t.configMap(ns, "orphaned", ownedBy(fake, free)).Unstructured, configMaps})
			t.awaitOwners(t.configMap(ns, "both", ownedBy(fake, free), ownedBy(real, free)), 1)
			renamed := object{real.DeepCopy(), configMaps}
			renamed.SetName("else")
			t.awaitGone(t.configMap(ns, "misnamed", ownedBy(renamed, free)))
		}},
		{"owners in another namespace are absent", func(t *tester, ns string) {
			owner := t.configMap(ns, "owner")
			good := t.configMap(ns, "good", ownedBy(owner, free))
			elsewhere := t.namespace(ns + "-elsewhere")
			t.awaitGone(t.configMap(elsewhere, "bad", ownedBy(owner, free)))
			t.settle(ns)
			if t.get(good) == nil {
				t.Error("the good dependent is gone")
			}
		}},
		{"cluster-scoped owners", func(t *tester, ns string) {
			owner := t.create(namespaces, "", "Namespace", ns+"-owner")
			child := t.configMap(ns, "child", ownedBy(owner, free))
			t.settle(ns)
			if t.get(child) == nil {
				t.Fatal("the child is gone before its owner")
			}
			t.delete(owner, metav1.DeletePropagationBackground)
			t.awaitGone(owner, child)
		}},
		{"a cluster-scoped object cannot have an owner in a namespace", func(t *tester, ns string) {
			child := t.create(namespaces, "", "Namespace", ns+"-child", ownedBy(t.configMap(ns, "owner"), free))
			t.settle(ns)
			if obj := t.get(child); obj == nil || obj.GetDeletionTimestamp() != nil {
				t.Error("the namespace is deleted")
			}
		}},
		{"foreground waits for blocking dependents", func(t *tester, ns string) {
			owner := t.configMap(ns, "owner")
			held := t.configMap(ns, "held", ownedBy(owner, block), finalizers("example.com/f"))
			heldToo := t.configMap(ns, "held-too", ownedBy(owner, free), finalizers("example.com/f"))
			quick := t.configMap(ns, "quick", ownedBy(owner, free))
			t.delete(owner, metav1.DeletePropagationForeground)
			t.awaitGone(quick)
			for _, o := range []object{held, heldToo} {
				t.await(o, "being deleted", func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
			}
			t.settle(ns)
			if obj := t.get(owner); obj == nil || len(obj.GetFinalizers()) != 1 {
				t.Fatal("the owner did not wait")
			}
			t.patch(held, `{"metadata":{"finalizers":null}}`)
			t.awaitGone(held, owner)
			if t.get(heldToo) == nil {
				t.Error("a finalizer was ignored")
			}
			t.patch(heldToo, `{"metadata":{"finalizers":null}}`)
			t.awaitGone(heldToo)
		}},
		{"foreground is passed on", func(t *tester, ns string) {
			owner := t.configMap(ns, "owner")
			child := t.configMap(ns, "child", ownedBy(owner, block))
			grandchild := t.configMap(ns, "grandchild", ownedBy(child, block), finalizers("example.com/f"))
			t.delete(owner, metav1.DeletePropagationForeground)
			t.await(grandchild, "being deleted", func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
			t.await(child, "foreground", func(obj *unstructured.Unstructured) bool {
				return obj != nil && len(obj.GetFinalizers()) == 1 && obj.GetFinalizers()[0] == metav1.FinalizerDeleteDependents
			})
			t.settle(ns)
			if t.get(owner) == nil || t.get(child) == nil {
				t.Fatal("an owner did not wait")
			}
			t.patch(grandchild, `{"metadata":{"finalizers":null}}`)
			t.awaitGone(grandchild, child, owner)
		}},
		{"foreground is freed by a reference that goes or does not block any more", func(t *tester, ns string) {
			for name, patch := range map[string]string{
				"goes":    `{"metadata":{"ownerReferences":null}}`,
				"changes": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"changes","uid":"UID"}]}}`,
			} {
				owner := t.configMap(ns, name)
				held := t.configMap(ns, name+"-held", ownedBy(owner, block), finalizers("example.com/f"))
				t.delete(owner, metav1.DeletePropagationForeground)
				t.await(held, "being deleted", func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
				t.patch(held, strings.ReplaceAll(patch, "UID", string(owner.GetUID())))
				t.awaitGone(owner)
			}
		}},
		{"foreground leaves what has another owner", func(t *tester, ns string) {
			owner, other := t.configMap(ns, "owner"), t.configMap(ns, "other")
			child := t.configMap(ns, "child", ownedBy(owner, block), ownedBy(other, free))
			t.delete(owner, metav1.DeletePropagationForeground)
			t.awaitGone(owner)
			t.awaitOwners(child, 1)
		}},
		{"foreground in a circle ends", func(t *tester, ns string) {
			a := t.configMap(ns, "a")
			b := t.configMap(ns, "b", ownedBy(a, block))
			t.patch(a, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":%q,"blockOwnerDeletion":true}]}}`, b.GetUID()))
			t.delete(a, metav1.DeletePropagationForeground)
			t.awaitGone(a, b)
		}},
		{"orphan takes the references away", func(t *tester, ns string) {
			owner, other := t.configMap(ns, "owner"), t.configMap(ns, "other")
			only := t.configMap(ns, "only", ownedBy(owner, block))
			both := t.configMap(ns, "both", ownedBy(owner, block), ownedBy(other, block))
			t.delete(owner, metav1.DeletePropagationOrphan)
			t.awaitGone(owner)
			t.settle(ns)
			if obj := t.get(only); obj == nil || len(obj.GetOwnerReferences()) != 0 || obj.GetDeletionTimestamp() != nil {
				t.Errorf("got %v", obj)
			}
			if obj := t.get(both); obj == nil || len(obj.GetOwnerReferences()) != 1 {
				t.Errorf("got %v", obj)
			}
		}},
		{"the last word on the policy counts", func(t *tester, ns string) {
			owner := t.configMap(ns, "owner", finalizers("example.com/f"))
			child := t.configMap(ns, "child", ownedBy(owner, block), finalizers("example.com/f"))
			t.delete(owner, metav1.DeletePropagationBackground)
			t.settle(ns)
			if t.get(child).GetDeletionTimestamp() != nil {
				t.Fatal("the child is deleted before its owner is gone")
			}
			t.delete(owner, metav1.DeletePropagationForeground)
			t.await(child, "being deleted", func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
			t.patch(child, `{"metadata":{"finalizers":null}}`)
			t.await(owner, "let go", func(obj *unstructured.Unstructured) bool {
				return len(obj.GetFinalizers()) == 1 && obj.GetFinalizers()[0] == "example.com/f"
			})
			t.patch(owner, `{"metadata":{"finalizers":null}}`)
			t.awaitGone(owner)
		}},
		{"custom resources own and are owned", func(t *tester, ns string) {
			owner := t.create(widgets, ns, "Widget", "owner")
			child := t.create(widgets, ns, "Widget", "child", ownedBy(owner, block))
			builtIn := t.configMap(ns, "child", ownedBy(child, block))
			t.delete(owner, metav1.DeletePropagationForeground)
			t.awaitGone(owner, child, builtIn)
		}},
		{"namespaces are deleted in the foreground", func(t *tester, ns string) {
			owner := t.create(namespaces, "", "Namespace", ns+"-owner")
			child := t.configMap(ns, "child", ownedBy(owner, block))
			t.delete(owner, metav1.DeletePropagationForeground)
			t.awaitGone(owner, child)
		}},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tt := all.in(t)
			tc.run(tt, tt.namespace(fmt.Sprintf("test-%d", i)))
		})
	}
}

// Dependents of custom resources go with the definition; what refers to a kind that is not served is left
// alone until it is.
func TestGarbageOfDefinitions(t *testing.T) {
	all := newTester(t, servertest.Options{})
	crd := all.define("widget")
	owner := all.create(widgets, "default", "Widget", "owner")
	child := all.configMap("default", "child", ownedBy(owner, true))
	all.delete(crd, metav1.DeletePropagationBackground)
	all.awaitGone(crd, child)
	// The definition goes a moment before it is known: until then its kind is served, and its objects are known to be gone.
	all.eventually("its kind is not served", func() error {
		code, _ := all.request(http.MethodGet, "/apis/example.com/v1/namespaces/default/widgets", "")
		return unless(code == http.StatusNotFound)
	})

	late := all.configMap("default", "late", ownedBy(owner, true))
	all.settle("default")
	if all.get(late) == nil {
		t.Fatal("an object whose owner cannot be looked up was deleted")
	}
	all.define("widget")
	all.awaitGone(late)
}

// A server that comes back goes on with what was under way, and sees what happened while it was down.
func TestGarbageAfterRestart(t *testing.T) {
	all := newTester(t, servertest.Options{})
	owner := all.configMap("default", "owner")
	held := all.configMap("default", "held", ownedBy(owner, true), finalizers("example.com/f"))
	quick := all.configMap("default", "quick", ownedBy(owner, true))
	kept := all.configMap("default", "kept", ownedBy(all.configMap("default", "live"), true))
	all.delete(owner, metav1.DeletePropagationForeground)
	all.awaitGone(quick)
	orphaned := all.configMap("default", "orphaned", finalizers("example.com/f"))
	child := all.configMap("default", "child", ownedBy(orphaned, true))
	all.delete(orphaned, metav1.DeletePropagationOrphan)
	if err := all.env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.await(orphaned, "orphaned", func(obj *unstructured.Unstructured) bool { return len(obj.GetFinalizers()) == 1 })
	if len(all.get(child).GetOwnerReferences()) != 0 {
		t.Error("the child has its owner still")
	}
	if all.get(owner) == nil {
		t.Fatal("the owner did not wait")
	}
	all.patch(held, `{"metadata":{"finalizers":null}}`)
	all.awaitGone(held, owner)
	if all.get(kept) == nil {
		t.Error("a dependent of a live owner is gone")
	}
}

// startEtcd returns an etcd that servers can share, and its address.
func startEtcd(t *testing.T) (*etcd3.Embedded, string) {
	t.Helper()
	etcd, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Errorf("close etcd: %v", err)
		}
	})
	return etcd, "http://" + etcd.Addr().String()
}

// Rows that are no JSON, or none of this server's resources, do not end the collection.
func TestGarbageSkipsForeignRows(t *testing.T) {
	etcd, address := startEtcd(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	rows := []string{"k8s\x00binary", "", "[]", `{"metadata":1}`,
		`{ "kind":"X", "apiVersion":"gone.example.com/v1", "metadata":{"uid":"u", "name":"n", "ownerReferences":[{"uid":"v"}]}}`}
	for i, row := range rows {
		for range 2 {
			if _, err := etcd.Client().Put(t.Context(), fmt.Sprintf("/registry/foreign/row%d", i), row); err != nil {
				t.Fatal(err)
			}
		}
		all.settle("default")
	}
	if err := all.env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.settle("default")
}

// Trees are made and deleted by many clients, by every policy, while two servers collect; nothing is left that
// should not be, and nothing goes that should stay.
func TestGarbageHammer(t *testing.T) {
	_, address := startEtcd(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	kept := make([][]object, 8)
	t.Run("trees", func(t *testing.T) {
		for worker := range kept {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				tt := all.in(t)
				for round := range 6 {
					policy := policies[(worker+round)%len(policies)]
					name := fmt.Sprintf("t%d-%d", worker, round)
					owner := tt.configMap("default", name)
					var tree []object
					for i := range 3 {
						child := tt.configMap("default", fmt.Sprintf("%s-%d", name, i), ownedBy(owner, i%2 == 0))
						tree = append(tree, child, tt.configMap("default", fmt.Sprintf("%s-%d-c", name, i), ownedBy(child, true)))
					}
					tt.delete(owner, policy)
					tt.awaitGone(owner)
					if policy == metav1.DeletePropagationOrphan {
						kept[worker] = append(kept[worker], tree...)
						continue
					}
					tt.awaitGone(tree...)
				}
			})
		}
	})
	all.settle("default")
	for _, tree := range kept {
		for _, o := range tree {
			if all.get(o) == nil {
				t.Errorf("%s is gone", o.GetName())
			}
		}
	}
}

func TestKubectlCascade(t *testing.T) {
	kubectl := servertest.Kubectl(t)
	all := newTester(t, servertest.Options{})
	template := with(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "x"}}}}, "spec", "template")
	selector := with(map[string]any{"a": "b"}, "spec", "selector", "matchLabels")
	for _, cascade := range []string{"foreground", "orphan", "background"} {
		deployment := all.create(deployments, "default", "Deployment", cascade, template, selector)
		replicaSet := all.create(replicaSets, "default", "ReplicaSet", cascade, template, selector, ownedBy(deployment, true))
		pod := all.create(pods, "default", "Pod", cascade, ownedBy(replicaSet, true),
			with([]any{map[string]any{"name": "c", "image": "x"}}, "spec", "containers"))
		command := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", all.env.Kubeconfig(), "delete", "deploy", cascade, "--cascade="+cascade, "--timeout=30s")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cascade, err, out)
		}
		switch cascade {
		case "foreground":
			if all.get(replicaSet) != nil || all.get(pod) != nil {
				t.Error("foreground: dependents are left")
			}
		case "background":
			all.awaitGone(replicaSet, pod)
		case "orphan":
			if obj := all.get(replicaSet); obj == nil || len(obj.GetOwnerReferences()) != 0 {
				t.Errorf("orphan: got %v", obj)
			}
			if all.get(pod) == nil {
				t.Error("orphan: the pod is gone")
			}
		}
	}
}

// request sends body as JSON and returns the code and the decoded answer.
func (t *tester) request(method, path, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, t.env.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.env.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, out
}
