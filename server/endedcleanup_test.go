package server_test

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// The objects of a definition stay that nobody has deleted any more, as where etcd was restored from an earlier state or somebody
// took the finalizer from it and made it anew, while its objects were being removed. It can be deleted again.
func TestCleanupOfDefinitionThatIsBack(t *testing.T) {
	for _, how := range []string{"restored", "made anew"} {
		t.Run(how, func(t *testing.T) {
			etcd, address := startEtcd(t)
			all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
			defined := all.define("widget")
			const key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
			before, err := etcd.Client().Get(t.Context(), key)
			if err != nil || len(before.Kvs) != 1 {
				t.Fatalf("%v, %v", before, err)
			}
			held := all.create(widgets, "default", "Widget", "held", finalizers("example.com/f"))
			started := time.Now()
			all.delete(defined, metav1.DeletePropagationBackground)
			all.await(held, "deleting", func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
			crds := all.client.Resource(definitions)
			if how == "restored" {
				if _, err := etcd.Client().Put(t.Context(), key, string(before.Kvs[0].Value)); err != nil {
					t.Fatal(err)
				}
			} else {
				all.eventually("force", func() error {
					_, err := crds.Patch(t.Context(), defined.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
					return err
				})
				all.awaitGone(defined)
				all.define("widget")
			}
			var free object
			all.eventually("a new object", func() error {
				obj, err := all.client.Resource(widgets).Namespace("default").Create(t.Context(), build(widgets, "default", "Widget", "free"), metav1.CreateOptions{})
				free = object{obj, widgets}
				return err
			})
			time.Sleep(2*time.Since(started) + 100*time.Millisecond) // a look that was still to come would have come by now
			if obj := all.get(free); obj == nil {
				t.Error("a new object goes")
			}
			if err := crds.Delete(t.Context(), defined.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			all.eventually("removal of the finalizer", func() error {
				_, err := all.of(held).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return err
			})
			all.eventually("the end", func() error {
				code, _ := all.request(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "")
				return unless(code == http.StatusNotFound)
			})
		})
	}
}
