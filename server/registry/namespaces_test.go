package registry

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage/etcd3"
)

func namespaceStrategy(t *testing.T, subresource string, writes ...[]string) *rest.Generic {
	t.Helper()
	g, err := rest.NewGeneric(rest.GenericConfig{
		Resource: schema.GroupResource{Resource: "namespaces"}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"},
		StatusEnabled: true, NoGeneration: true, AllowUnconditionalUpdate: true, Subresource: subresource, Writes: writes,
		Keeps: [][]string{{"spec", "finalizers"}}, Layers: []rest.Layer{NamespaceLayer{}},
		NameValidator: validation.ValidateNamespaceName,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func testNamespaces(t *testing.T) (*Namespaces, *Subresource, *Subresource) {
	t.Helper()
	n, err := NewNamespaces(Config{
		Resource: schema.GroupResource{Resource: "namespaces"}, Prefix: "/registry/namespaces", Storage: testStorage(t, "/registry/namespaces", false),
		Strategy: namespaceStrategy(t, ""), Now: func() time.Time { return epoch },
	})
	if err != nil {
		t.Fatal(err)
	}
	status := n.Store().Subresource(namespaceStrategy(t, "status"))
	return n, status, n.Store().Subresource(namespaceStrategy(t, "finalize", []string{"spec", "finalizers"}))
}

func namespace(t *testing.T, name string) *document.Document {
	t.Helper()
	return mustParse(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`)
}

func TestNamespaceLife(t *testing.T) {
	n, status, finalize := testNamespaces(t)
	ctx := t.Context()
	born := mustCreate(t, n, ctx, namespace(t, "a"))
	m := rest.MetaOf(born)
	if born.Get("status", "phase").String() != "Active" || born.Get("spec", "finalizers").Index(0).String() != "kubernetes" ||
		m.Label("kubernetes.io/metadata.name") != "a" || m.Generation() != 0 || m.Namespace() != "" {
		t.Fatalf("created %s", born.Bytes())
	}
	if out := mustUpdate(t, n, ctx, "a", edit([]any{}, "spec", "finalizers")); !out.Equal(born) {
		t.Errorf("finalizers changed through the main resource: %s", out.Bytes())
	}
	_, _, err := status.Update(ctx, "a", edit("Terminating", "status", "phase"), nil, nil, false, nil)
	wantStatus(t, err, 422, "may only be 'Active' if `deletionTimestamp` is empty")

	other := types.UID("x")
	_, _, err = n.Delete(ctx, "a", nil, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	wantStatus(t, err, 409)
	dying, deleted, err := n.Delete(ctx, "a", nil, nil)
	if err != nil || deleted || !rest.MetaOf(dying).Deleting() || dying.Get("status", "phase").String() != "Terminating" {
		t.Fatalf("delete: %v %v", deleted, err)
	}
	again, deleted, err := n.Delete(ctx, "a", nil, nil)
	if err != nil || deleted || !again.Equal(dying) {
		t.Fatalf("second delete: %v %v %s", deleted, err, again.Bytes())
	}
	_, _, err = status.Update(ctx, "a", edit("Active", "status", "phase"), nil, nil, false, nil)
	wantStatus(t, err, 422, "may only be 'Terminating' if `deletionTimestamp` is not empty")

	out := mustUpdate(t, finalize, ctx, "a", edit([]any{}, "spec", "finalizers"))
	if out.Get("spec", "finalizers").Len() != 0 {
		t.Errorf("finalized %s", out.Bytes())
	}
	_, err = n.Get(ctx, "a", nil)
	wantStatus(t, err, 404, `namespaces "a" not found`)
}

// TestNamespaceDeleteLarge: a namespace that is as large as can be stored can be deleted: managedFields make room for what says
// that it is to end.
func TestNamespaceDeleteLarge(t *testing.T) {
	n, _, finalize := testNamespaces(t)
	ctx := t.Context()
	create := func(name string, filler int) int {
		out := mustCreate(t, n, ctx, mustParse(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1",`+
			`"fieldsV1":{"f:`+strings.Repeat("x", filler)+`":{}},"manager":"somebody","operation":"Update","time":"2026-01-01T00:00:00Z"}],"name":"`+name+`"}}`))
		stored, err := out.Edit().Delete("metadata", "resourceVersion").Document()
		if err != nil {
			t.Fatal(err)
		}
		return len("/registry/namespaces/") + len(name) + stored.Len()
	}
	const room = 10
	if size := create("b", etcd3.DefaultMaxObjectBytes-room-create("a", 0)); size != etcd3.DefaultMaxObjectBytes-room {
		t.Fatalf("the namespace has %d bytes", size)
	}
	for range 2 {
		out, deleted, err := n.Delete(ctx, "b", nil, nil)
		if err != nil || deleted || !rest.MetaOf(out).Deleting() || out.Get("status", "phase").String() != "Terminating" || out.Get("metadata", "managedFields").Exists() {
			t.Fatalf("deleted: %t, %v", deleted, err)
		}
	}
	mustUpdate(t, finalize, ctx, "b", edit([]any{}, "spec", "finalizers"))
	_, err := n.Get(ctx, "b", nil)
	wantStatus(t, err, 404)
}

func TestNamespaceErrors(t *testing.T) {
	n, _, finalize := testNamespaces(t)
	ctx := t.Context()
	_, err := n.Create(ctx, namespace(t, "a.b"), nil, nil)
	wantStatus(t, err, 422, "metadata.name")
	mustCreate(t, n, ctx, namespace(t, "a"))
	_, _, err = finalize.Update(ctx, "a", edit([]any{"odd"}, "spec", "finalizers"), nil, nil, false, nil)
	wantStatus(t, err, 422, "name is neither a standard finalizer name nor is it fully qualified")
	_, _, err = n.Delete(ctx, "b", nil, nil)
	wantStatus(t, err, 404)
	// Without spec.finalizers there is nothing to wait for.
	mustUpdate(t, finalize, ctx, "a", edit([]any{}, "spec", "finalizers"))
	if _, deleted, err := n.Delete(ctx, "a", nil, nil); err != nil || !deleted {
		t.Errorf("delete: %v %v", deleted, err)
	}
}
