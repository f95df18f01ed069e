package server_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// protobufRow is what kube-apiserver stores of a node.
func protobufRow(t *testing.T, node *corev1.Node) string {
	t.Helper()
	raw, err := node.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Node"}, Raw: raw}
	envelope, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(envelope)
}

// In an etcd of kube-apiserver built-in objects are there though no request finds them: what they own stays, until they go.
func TestOwnersOfKubeAPIServer(t *testing.T) {
	etcd, address := startEtcd(t)
	put := func(name string) {
		t.Helper()
		if _, err := etcd.Client().Put(t.Context(), "/registry/minions/"+name, protobufRow(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}})); err != nil {
			t.Fatal(err)
		}
	}
	put("listed")
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	all.define("widget")
	put("watched")
	ownedByNode := func(name string) option {
		node := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "uid": "uid-" + name}}}
		return ownedBy(object{Unstructured: node}, true)
	}
	first := all.create(widgets, "default", "Widget", "first", ownedByNode("listed"))
	second := all.create(widgets, "default", "Widget", "second", ownedByNode("watched"))
	all.settle("default")
	for _, o := range []object{first, second} {
		if obj := all.get(o); obj == nil || obj.GetDeletionTimestamp() != nil {
			t.Errorf("%s goes", o.GetName())
		}
	}
	if _, err := etcd.Client().Delete(t.Context(), "/registry/minions/watched"); err != nil {
		t.Fatal(err)
	}
	all.awaitGone(second)
	if all.get(first) == nil {
		t.Error("the dependent of another owner goes")
	}
}

// What --etcd-servers-overrides leave behind in another etcd is not served, but what it owns stays. A copy that is left behind
// does not keep the dependents of what is served.
func TestOwnersLeftBehind(t *testing.T) {
	mainAt, main := externalEtcd(t)
	otherAt, other := externalEtcd(t)
	const owner = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","namespace":"default","uid":"uid-NAME"}}`
	for _, name := range []string{"left", "copied"} {
		row := strings.ReplaceAll(owner, "NAME", name)
		if _, err := main.Put(t.Context(), "/registry/configmaps/default/"+name, row); err != nil {
			t.Fatal(err)
		}
		if name == "left" {
			continue
		}
		if _, err := other.Put(t.Context(), "/registry/configmaps/default/"+name, row); err != nil {
			t.Fatal(err)
		}
	}
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{mainAt},
		Storage: server.StorageConfig{ServersOverrides: []string{"/configmaps#" + otherAt}}}})
	ownedByMap := func(name string) option {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "uid": "uid-" + name}}}
		return ownedBy(object{Unstructured: obj}, true)
	}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	left := all.create(secrets, "default", "Secret", "left", ownedByMap("left"))
	copied := all.create(secrets, "default", "Secret", "copied", ownedByMap("copied"))
	all.settle("default")
	for _, o := range []object{left, copied} {
		if obj := all.get(o); obj == nil {
			t.Errorf("%s goes", o.GetName())
		}
	}
	if err := all.client.Resource(configMaps).Namespace("default").Delete(t.Context(), "copied", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	all.awaitGone(copied)
	if all.get(left) == nil {
		t.Error("the dependent of what was left behind goes")
	}
	if _, err := main.Delete(t.Context(), "/registry/configmaps/default/left"); err != nil {
		t.Fatal(err)
	}
	all.awaitGone(left)
}

// Who asks for an object that kube-apiserver stored as protobuf, or needs its namespace, is told what it is and what to do.
func TestProtobufOfKubeAPIServer(t *testing.T) {
	etcd, address := startEtcd(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	row, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Client().Put(t.Context(), "/registry/namespaces/theirs", "k8s\x00"+string(row)); err != nil {
		t.Fatal(err)
	}
	const maps = "/api/v1/namespaces/theirs/configmaps"
	for _, tc := range []struct{ method, path, body string }{
		{http.MethodGet, "/api/v1/namespaces", ""},
		{http.MethodGet, "/api/v1/namespaces/theirs", ""},
		{http.MethodPost, maps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
		{http.MethodPut, "/api/v1/namespaces/theirs", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"theirs"}}`},
		{http.MethodDelete, "/api/v1/namespaces/theirs", ""},
	} {
		code, out := all.request(tc.method, tc.path, tc.body)
		message, _ := out["message"].(string)
		for _, want := range []string{"/registry/namespaces/theirs", "protobuf", "kube-apiserver", "JSON", "--etcd-prefix"} {
			if code != http.StatusInternalServerError || !strings.Contains(message, want) {
				t.Errorf("%s %s: %d %s, want 500 with %s", tc.method, tc.path, code, message, want)
			}
		}
	}
}

// A copy that --etcd-servers-overrides left behind is removed: what it is a copy of still goes with its owner. One that is copied
// under a running server goes with its dependents.
func TestRemovalOfWhatIsLeftBehind(t *testing.T) {
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	mainAt, main := externalEtcd(t)
	otherAt, other := externalEtcd(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{mainAt},
		Storage: server.StorageConfig{ServersOverrides: []string{"/configmaps#" + otherAt}}}})
	owner := all.create(secrets, "default", "Secret", "owner")
	owned := all.configMap("default", "owned", ownedBy(owner, true))
	const key = "/registry/configmaps/default/"
	row, err := other.Get(t.Context(), key+"owned")
	if err != nil || len(row.Kvs) != 1 {
		t.Fatalf("%v, %v", row, err)
	}
	if _, err := main.Put(t.Context(), key+"owned", string(row.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if _, err := main.Delete(t.Context(), key+"owned"); err != nil {
		t.Fatal(err)
	}
	settle := func() { // by the stream of the main etcd
		first := all.create(secrets, "default", "Secret", "settle")
		second := all.create(secrets, "default", "Secret", "settled", ownedBy(first, false))
		all.delete(first, metav1.DeletePropagationBackground)
		all.awaitGone(second)
	}
	settle()
	all.delete(owner, metav1.DeletePropagationBackground)
	all.awaitGone(owned)

	const left = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"left","namespace":"default","uid":"uid-left"}}`
	if _, err := main.Put(t.Context(), key+"left", left); err != nil {
		t.Fatal(err)
	}
	settle()
	if _, err := other.Put(t.Context(), key+"left", left); err != nil {
		t.Fatal(err)
	}
	copied := object{&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "left", "namespace": "default", "uid": "uid-left"}}}, configMaps}
	dependent := all.create(secrets, "default", "Secret", "dependent", ownedBy(copied, true))
	all.settle("default")
	all.delete(copied, metav1.DeletePropagationForeground)
	all.awaitGone(dependent, copied)
}
