package server_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// metric returns the value of a series, with its labels, of a server; false where there is none.
func metric(t *testing.T, env *servertest.Environment, series string) (float64, bool) {
	t.Helper()
	_, text, _ := body(t, env, "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return f, true
		}
	}
	return 0, false
}

// TestSizeEstimate: the size of a resource is what etcd has of it, to the byte, as long as it was cached; asking for it
// does not keep the cache running, and the size of a row is known after it has stopped.
func TestSizeEstimate(t *testing.T) {
	at, etcd := externalEtcd(t)
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}, Storage: server.StorageConfig{
		CountPollPeriod: 10 * time.Millisecond, WatchCacheIdleTimeout: time.Second, ConsistencyCheckInterval: -1}}})
	const series = `apiserver_resource_size_estimate_bytes{group="",resource="configmaps"}`
	client := kubernetes.NewForConfigOrDie(env.RESTConfig()).CoreV1().ConfigMaps("default")
	ctx := t.Context()
	stored := func() (objects int64, bytes float64) {
		resp, err := etcd.Get(ctx, "/registry/configmaps/", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range resp.Kvs {
			bytes += float64(len(kv.Value))
		}
		return resp.Count, bytes
	}
	create := func(name string, size int) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": strings.Repeat("x", size)}}
		if _, err := client.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		create(fmt.Sprint("c", i), i*i*100)
	}
	if _, err := client.List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	objects, bytes := stored()
	if objects != 12 || bytes < 50600 {
		t.Fatalf("etcd has %d objects of %v bytes", objects, bytes)
	}
	soon(t, fmt.Sprintf("%s is %v", series, bytes), func() bool {
		got, ok := metric(t, env, series)
		return ok && got == bytes
	})
	soon(t, "the cache stops", func() bool {
		got, ok := metric(t, env, `weir_watch_cache_idle_stops_total{group="",resource="configmaps"}`)
		return ok && got > 0
	})
	// The cache does not see this one.
	if _, err := etcd.Put(ctx, "/registry/configmaps/default/another", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"another","namespace":"default"}}`); err != nil {
		t.Fatal(err)
	}
	want := bytes * 13 / 12
	soon(t, fmt.Sprintf("%s is %v", series, want), func() bool {
		got, ok := metric(t, env, series)
		return ok && got == want
	})
}
