package server_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server"
	"weir.dev/weir/server/controllers"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/servertest/tools"
	"weir.dev/weir/server/storage/etcd3"
)

// replaceable is an etcd whose data can be another one's under the servers that use it.
type replaceable struct {
	*testing.T
	etcd    *etcd3.Embedded
	dir     string
	address string
}

func startReplaceable(t *testing.T) *replaceable {
	t.Helper()
	port, err := tools.FreePort() // one that nobody is given while the etcd is down
	if err != nil {
		t.Fatal(err)
	}
	r := &replaceable{T: t, dir: t.TempDir(), address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *replaceable) start() {
	r.Helper()
	var err error
	r.etcd, err = etcd3.StartEmbedded(r.Context(), etcd3.EmbeddedConfig{DataDir: r.dir, UnsafeNoFsync: true, ListenClient: r.address})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *replaceable) stop() {
	r.Helper()
	if err := r.etcd.Close(); err != nil {
		r.Errorf("close etcd: %v", err)
	}
}

// backup copies the data as they are.
func (r *replaceable) backup() (dir string) {
	r.Helper()
	r.stop()
	defer r.start()
	dir = r.TempDir()
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		r.Fatal(err)
	}
	return dir
}

// restore goes on with the data in dir.
func (r *replaceable) restore(dir string) {
	r.Helper()
	r.stop()
	r.dir = dir
	r.start()
}

// eventually calls done until it has no error.
func (t *tester) eventually(what string, done func() error) {
	t.Helper()
	deadline := time.Now().Add(awaitTimeout)
	for err := done(); err != nil; err = done() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond) // a poll: servers tell nobody that they have found their etcd
	}
}

// After etcd was emptied under two running servers the system namespaces come back, and the default roles, bindings and
// strategies, but for what was deleted before.
func TestEmptiedUnderServers(t *testing.T) {
	etcd := startReplaceable(t)
	config := server.Config{EtcdServers: []string{"http://" + etcd.address}}
	all := newTester(t, servertest.Options{Config: config})
	second := newTester(t, servertest.Options{Config: config})
	all.namespace("other")
	roles, bindings := rbacv1.SchemeGroupVersion.WithResource("clusterroles"), rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")
	strategies := schema.GroupVersionResource{Group: "weir.dev", Version: "v1alpha1", Resource: "strategies"}
	if err := all.client.Resource(roles).Delete(t.Context(), "view", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	names := func(t *tester, gvr schema.GroupVersionResource) (names []string) {
		list, err := t.client.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return nil
		}
		for _, obj := range list.Items {
			names = append(names, obj.GetName())
		}
		slices.Sort(names)
		return names
	}
	before := map[schema.GroupVersionResource][]string{}
	for _, gvr := range []schema.GroupVersionResource{roles, bindings, strategies} {
		before[gvr] = names(all, gvr)
		second.eventually("the deletion", func() error { return unless(slices.Equal(names(second, gvr), before[gvr])) })
	}
	// Who saw nobody delete a default role holds it for lost.
	later, err := all.client.Resource(roles).Patch(t.Context(), "edit", types.MergePatchType, []byte(`{"metadata":{"labels":{"later":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []*tester{all, second} {
		if err := tt.env.Server().WaitDefaults(t.Context(), roles.GroupResource(), later.GetResourceVersion()); err != nil {
			t.Fatal(err)
		}
	}
	etcd.restore(t.TempDir())
	for _, t := range []*tester{all, second} {
		for _, name := range controllers.SystemNamespaces() {
			t.eventually("namespace "+name, func() error {
				_, err := t.client.Resource(namespaces).Get(t.Context(), name, metav1.GetOptions{})
				return err
			})
		}
		list, err := t.client.Resource(namespaces).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != len(controllers.SystemNamespaces()) {
			t.Errorf("%d namespaces, %v", len(list.Items), err)
		}
		t.eventually("create", func() error {
			_, err := t.client.Resource(configMaps).Namespace("default").Create(t.Context(), build(configMaps, "default", "ConfigMap", "a"), metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				return t.client.Resource(configMaps).Namespace("default").Delete(t.Context(), "a", metav1.DeleteOptions{})
			}
			return err
		})
		for gvr, want := range before {
			t.eventually(gvr.Resource, func() error {
				if got := names(t, gvr); !slices.Equal(got, want) {
					return fmt.Errorf("%d of %d are there", len(got), len(want))
				}
				return nil
			})
		}
	}
}

// What a restored etcd has lost of the status of a definition is written again: who waits for a condition waits for that.
func TestStatusOfRestored(t *testing.T) {
	etcd := startReplaceable(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{"http://" + etcd.address}}})
	defined := all.define("widget")
	const key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
	row, err := etcd.etcd.Client().Get(t.Context(), key)
	if err != nil || len(row.Kvs) != 1 {
		t.Fatalf("%v, %v", row, err)
	}
	doc, err := document.FromCanonical(row.Kvs[0].Value).Edit().Delete("status", "conditions").Document()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.etcd.Client().Put(t.Context(), key, string(doc.Bytes())); err != nil {
		t.Fatal(err)
	}
	established := func(obj *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		return len(conditions) > 1
	}
	all.await(defined, "as it is stored", func(obj *unstructured.Unstructured) bool { return !established(obj) })
	backup := etcd.backup()
	all.eventually("a write", func() error {
		_, err := all.client.Resource(definitions).Patch(t.Context(), "widgets.example.com", types.MergePatchType, []byte(`{"metadata":{"labels":{"lost":"yes"}}}`), metav1.PatchOptions{})
		return err
	})
	etcd.restore(backup)
	all.eventually("the conditions", func() error {
		obj, err := all.of(defined).Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
		if err == nil && (!established(obj) || obj.GetLabels()["lost"] != "") {
			err = errors.New("not yet")
		}
		return err
	})
}

// After etcd was restored from an earlier state under a running server, and its revisions given to other writes, the lost
// writes are not seen in any version of an object, by a get, a list or what an update begins with.
func TestRestoredUnderServer(t *testing.T) {
	etcd := startReplaceable(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{"http://" + etcd.address}}})
	crd := definition("widget")
	v1, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	// What is read in v2 has less than what is stored in v1.
	v2 := map[string]any{"name": "v2", "served": true, "storage": false, "schema": map[string]any{"openAPIV3Schema": map[string]any{
		"type": "object", "properties": map[string]any{"spec": map[string]any{
			"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}},
		}}}}}
	if err := unstructured.SetNestedSlice(crd.Object, append(v1, v2), "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	created, err := all.client.Resource(definitions).Create(t.Context(), crd, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all.await(object{created, definitions}, "served", func(obj *unstructured.Unstructured) bool {
		stored, _, _ := unstructured.NestedStringSlice(obj.Object, "status", "storedVersions")
		return len(stored) > 0
	})
	versions := []schema.GroupVersionResource{widgets, widgets.GroupResource().WithVersion("v2")}
	const objects, writes = 3, 8
	name := func(i int) string { return fmt.Sprint("w", i) }
	for i := range objects {
		all.create(widgets, "default", "Widget", name(i), with("before", "spec", "text"))
	}
	backup := etcd.backup()

	// check wants what text says of every object in all versions, and writes nothing.
	check := func(text string) error {
		for _, version := range versions {
			in := all.client.Resource(version).Namespace("default")
			list, err := in.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			if len(list.Items) != objects {
				return fmt.Errorf("%s: %d objects", version.Version, len(list.Items))
			}
			for i := range list.Items {
				one, err := in.Get(t.Context(), list.Items[i].GetName(), metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, obj := range []*unstructured.Unstructured{&list.Items[i], one} {
					if got, _, _ := unstructured.NestedString(obj.Object, "spec", "text"); got != text {
						return fmt.Errorf("%s %s at %s: %q, want %q", version.Version, obj.GetName(), obj.GetResourceVersion(), got, text)
					}
				}
			}
		}
		return nil
	}
	// write gives all objects the text in several steps, and reads what each step left in all versions.
	write := func(text string) (revisions map[string]string) {
		revisions = map[string]string{}
		for step := range writes {
			for i := range objects {
				in := all.client.Resource(widgets).Namespace("default")
				var obj *unstructured.Unstructured
				all.eventually("update", func() (err error) {
					if obj, err = in.Get(t.Context(), name(i), metav1.GetOptions{}); err != nil {
						return err
					}
					if err = unstructured.SetNestedField(obj.Object, text, "spec", "text"); err != nil {
						return err
					}
					if err = unstructured.SetNestedField(obj.Object, int64(step), "spec", "step"); err != nil {
						return err
					}
					obj, err = in.Update(t.Context(), obj, metav1.UpdateOptions{})
					return err
				})
				revisions[obj.GetResourceVersion()] = name(i)
				for _, version := range versions {
					read, err := all.client.Resource(version).Namespace("default").Get(t.Context(), name(i), metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if got, _, _ := unstructured.NestedString(read.Object, "spec", "text"); got != text {
						t.Errorf("%s %s at %s: %q, want %q", version.Version, name(i), read.GetResourceVersion(), got, text)
					}
				}
			}
		}
		return revisions
	}
	lost := write("lost")
	if err := check("lost"); err != nil {
		t.Fatal(err)
	}
	etcd.restore(backup)
	all.eventually("the state of the backup", func() error { return check("before") })
	again := 0
	for revision := range write("after") {
		if lost[revision] != "" {
			again++
		}
	}
	if again < writes {
		t.Fatalf("%d revisions were given again", again)
	}
	if err := check("after"); err != nil {
		t.Error(err)
	}
}

// An owner that was deleted in what a restored etcd has lost is there again: its dependents, old and new, stay.
func TestGarbageOfRestored(t *testing.T) {
	etcd := startReplaceable(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{"http://" + etcd.address}}})
	owner := all.configMap("default", "owner")
	child := all.configMap("default", "child", ownedBy(owner, true), finalizers("example.com/f"))
	backup := etcd.backup()
	all.eventually("delete", func() error { return all.of(owner).Delete(t.Context(), "owner", metav1.DeleteOptions{}) })
	all.await(child, "deleting", func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
	var lost uint64
	for i := range 100 { // more than is written below until the collector follows again
		lost, _ = strconv.ParseUint(all.configMap("default", fmt.Sprint("lost", i)).GetResourceVersion(), 10, 64)
	}
	all.eventually("the health check", func() error { return unless(all.env.Server().EtcdRevision() >= lost) })
	etcd.restore(backup)
	all.eventually("the health check", func() error { return unless(all.env.Server().EtcdRevision() < lost) })
	all.eventually("the state of the backup", func() error {
		obj, err := all.of(child).Get(t.Context(), "child", metav1.GetOptions{})
		if err == nil && obj.GetDeletionTimestamp() != nil {
			err = errors.New("the child is being deleted")
		}
		return err
	})
	all.settle("default") // the collector follows again
	second := all.configMap("default", "second", ownedBy(owner, true))
	all.settle("default")
	for _, o := range []object{owner, child, second} {
		if obj := all.get(o); obj == nil || obj.GetDeletionTimestamp() != nil {
			t.Errorf("%s goes", o.GetName())
		}
	}
}

func unless(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("not yet")
}
