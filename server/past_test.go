package server_test

import (
	"strconv"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// TestCompactedPast: what etcd has compacted is answered by the server whose cache remembers it, and is 410 at another,
// whose token goes on from there. README says so of a continue token.
func TestCompactedPast(t *testing.T) {
	at, etcd := externalEtcd(t)
	start := func() kubernetes.Interface {
		env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}}})
		return kubernetes.NewForConfigOrDie(env.RESTConfig())
	}
	ctx := t.Context()
	first := start()
	maps := first.CoreV1().ConfigMaps("default")
	for _, name := range []string{"a", "b", "c"} {
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "0"}) // lists alone are served from etcd while the cache is being filled
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if e, ok := <-w.ResultChan(); !ok || e.Type != watch.Added {
			t.Fatalf("event %v", e)
		}
	}
	w.Stop()
	page, err := maps.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil || page.Continue == "" {
		t.Fatalf("first page: %v, continue %q", err, page.Continue)
	}
	last, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	revision, err := strconv.ParseInt(last.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{ResourceVersion: last.ResourceVersion}); err != nil { // its cache has heard of it
		t.Fatal(err)
	}
	if _, err := etcd.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	second := start().CoreV1().ConfigMaps("default")
	if _, err := second.List(ctx, metav1.ListOptions{}); err != nil { // its cache is filled, with the present alone
		t.Fatal(err)
	}

	next := metav1.ListOptions{Limit: 10, Continue: page.Continue}
	exact := metav1.ListOptions{ResourceVersion: page.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	rest, err := maps.List(ctx, next)
	if err != nil || rest.ResourceVersion != page.ResourceVersion || len(rest.Items) != 2 || rest.Items[0].Name != "b" {
		t.Errorf("next page at the server that remembers: %v, %v; want b and c at %s", rest, err, page.ResourceVersion)
	}
	if all, err := maps.List(ctx, exact); err != nil || len(all.Items) != 3 {
		t.Errorf("exact list at the server that remembers: %v, %v; want three", all, err)
	}
	if _, err := second.List(ctx, exact); !apierrors.IsResourceExpired(err) {
		t.Errorf("exact list at the other server: %v, want 410", err)
	}
	_, err = second.List(ctx, next)
	status, ok := err.(apierrors.APIStatus)
	if !apierrors.IsResourceExpired(err) || !ok || status.Status().Continue == "" {
		t.Fatalf("next page at the other server: %v, want 410 with a token", err)
	}
	next.Continue = status.Status().Continue
	if rest, err := second.List(ctx, next); err != nil || len(rest.Items) != 3 || rest.Items[2].Name != "d" {
		t.Errorf("page of the token of the 410: %v, %v; want b, c and d", rest, err)
	}
}
