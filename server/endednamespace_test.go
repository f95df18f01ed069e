package server_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server/servertest"
)

// A namespace that is being deleted waits for its custom resources also where the server starts anew, which knows no
// definition at first.
func TestNamespaceEndsWithItsCustomResources(t *testing.T) {
	all := newTester(t, servertest.Options{})
	all.define("widget")
	ended := all.namespace("ended")
	held := all.create(widgets, ended, "Widget", "held", finalizers("example.com/f"))
	if err := all.client.Resource(namespaces).Delete(t.Context(), ended, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	all.await(held, "deleting", func(obj *unstructured.Unstructured) bool { return obj.GetDeletionTimestamp() != nil })
	for range 3 {
		if err := all.env.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := all.client.Resource(namespaces).Get(t.Context(), ended, metav1.GetOptions{}); err != nil {
			t.Fatalf("the namespace is gone before its content: %v", err)
		}
	}
	if _, err := all.of(held).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	all.eventually("the end", func() error {
		_, err := all.client.Resource(namespaces).Get(t.Context(), ended, metav1.GetOptions{})
		return unless(err != nil)
	})
}
