package server_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
)

// soon waits until ok.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(awaitTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func body(t *testing.T, env *servertest.Environment, path string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := env.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// logged is the log of a server.
type logged struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestServersOverrides: config maps are in an etcd of their own, and nothing else notices.
func TestServersOverrides(t *testing.T) {
	mainAt, main := externalEtcd(t)
	otherAt, other := externalEtcd(t)
	ctx := t.Context()
	// What was there before config maps were placed elsewhere does not count.
	if _, err := main.Put(ctx, "/registry/configmaps/default/old", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"old","namespace":"default","uid":"x","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["orphan"]}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := main.Put(ctx, "/registry/secrets/default/sealed", "k8s:enc:aesgcm:v1:key1:\x01\x02"); err != nil {
		t.Fatal(err)
	}
	var log logged
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{mainAt}, EtcdPrefix: "/registry/", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Storage: server.StorageConfig{ServersOverrides: []string{"/configmaps#" + otherAt, "apps/deploymints#" + otherAt},
			WatchCacheSizes: []string{"pods#64", "replicasats.apps#5"}}}})
	// But an operator who forgot them, or mistyped a name, is told.
	for _, want := range []string{"objects are not served", "resource=configmaps objects=1 etcd=etcd", "resource=deploymints.apps",
		`"--watch-cache-sizes name a resource that is not served" resource=replicasats.apps`, "--encryption-provider-config"} {
		soon(t, "the log says "+want, func() bool { return strings.Contains(log.String(), want) })
	}
	client := kubernetes.NewForConfigOrDie(env.RESTConfig())
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	owner, err := client.CoreV1().ConfigMaps("n").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}
	if _, err := client.CoreV1().Secrets("n").Create(ctx, &corev1.Secret{ObjectMeta: owned}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		key  string
		main bool
	}{{"/registry/configmaps/n/owner", false}, {"/registry/secrets/n/owned", true}, {"/registry/namespaces/n", true}} {
		inMain, err := main.Get(ctx, tc.key)
		if err != nil {
			t.Fatal(err)
		}
		inOther, err := other.Get(ctx, tc.key)
		if err != nil {
			t.Fatal(err)
		}
		if (inMain.Count == 1) != tc.main || (inOther.Count == 1) == tc.main {
			t.Errorf("%s: %d in the first etcd, %d in the second", tc.key, inMain.Count, inOther.Count)
		}
	}
	if list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("config maps: %v, %v", list, err)
	}
	code, text, _ := body(t, env, "/readyz?verbose")
	for _, check := range []string{"etcd", "etcd-readiness", "etcd-override-0", "etcd-override-readiness-0"} {
		if code != http.StatusOK || !strings.Contains(text, "[+]"+check+" ok\n") {
			t.Errorf("readyz %d has no %s:\n%s", code, check, text)
		}
	}
	for _, series := range []string{
		`apiserver_storage_size_bytes{storage_cluster_id="etcd-0"}`, `apiserver_storage_size_bytes{storage_cluster_id="etcd-1"}`,
		`apiserver_resource_objects{group="",resource="configmaps"}`, `apiserver_storage_objects{resource="configmaps"}`,
		`apiserver_storage_list_total{group="",index="",resource="configmaps",storage="watchcache"}`,
	} {
		soon(t, "metric "+series, func() bool {
			// A list that comes while the cache is being filled may be served from etcd.
			if _, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			_, text, _ := body(t, env, "/metrics")
			return strings.Contains(text, series)
		})
	}
	// The garbage collector sees both.
	if err := client.CoreV1().ConfigMaps("n").Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	soon(t, "the secret goes with its owner", func() bool {
		_, err := client.CoreV1().Secrets("n").Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if _, err := client.CoreV1().ConfigMaps("n").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	soon(t, "the namespace goes with all that is in it", func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, "n", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if resp, err := main.Get(ctx, "/registry/configmaps/default/old"); err != nil || resp.Count != 1 {
		t.Errorf("what was left in the first etcd: %v, %v, want it untouched", resp, err)
	}
}

// TestSeveralServers: servers on one etcd see each other's writes, work on the same things without harm, and go on
// when one of them ends.
func TestSeveralServers(t *testing.T) {
	at, _ := externalEtcd(t)
	ctx := t.Context()
	var servers []*servertest.Environment
	var clients []kubernetes.Interface
	for range 3 {
		env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}}})
		servers, clients = append(servers, env), append(clients, kubernetes.NewForConfigOrDie(env.RESTConfig()))
	}
	a, b := servers[0], clients[1]

	// A read of any server after a write of any other is consistent.
	for i := range 30 {
		to, from := clients[i%3], clients[(i+1)%3]
		name := fmt.Sprintf("c%d", i)
		if _, err := to.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := from.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("get from another server: %v", err)
		}
		list, err := from.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != i+1 {
			t.Errorf("list from another server after %d writes: %d, %v", i+1, len(list.Items), err)
		}
	}

	// A definition is in force on the server that was written to when the write returns, and soon on the others.
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	onA := dynamic.NewForConfigOrDie(a.RESTConfig())
	if _, err := onA.Resource(crds).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}}}
	if _, err := onA.Resource(widgets).Namespace("default").Create(ctx, widget, metav1.CreateOptions{}); err != nil {
		t.Errorf("on the server that was written to: %v", err)
	}
	for _, env := range servers[1:] {
		other := dynamic.NewForConfigOrDie(env.RESTConfig())
		soon(t, "the definition on another server", func() bool {
			_, err := other.Resource(widgets).Namespace("default").Get(ctx, "w", metav1.GetOptions{})
			return err == nil
		})
	}
	// The servers agree on its status: none writes what another wrote again and again.
	var version string
	same := 0
	soon(t, "the status of the definition settles", func() bool {
		crd, err := onA.Resource(crds).Get(ctx, "widgets.example.com", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if same++; crd.GetResourceVersion() != version {
			version, same = crd.GetResourceVersion(), 0
		}
		return same == 100
	})

	end := func(name string, client kubernetes.Interface) {
		t.Helper()
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		owner, err := client.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			owned := metav1.ObjectMeta{Name: fmt.Sprintf("owned%d", i), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}
			if _, err := client.CoreV1().Secrets(name).Create(ctx, &corev1.Secret{ObjectMeta: owned}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.CoreV1().ConfigMaps(name).Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		soon(t, "dependents go", func() bool {
			list, err := client.CoreV1().Secrets(name).List(ctx, metav1.ListOptions{})
			return err == nil && len(list.Items) == 0
		})
		if err := client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		soon(t, "the namespace goes", func() bool {
			_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	end("all", b)
	if err := a.Stop(); err != nil {
		t.Errorf("stop one: %v", err)
	}
	end("two", b)
	if err := servers[2].Stop(); err != nil {
		t.Errorf("stop another: %v", err)
	}
	end("one", b)
}

// TestEtcdGone: without etcd all requests that need it fail long before their own time is over, then at once, and can be tried again.
func TestEtcdGone(t *testing.T) {
	etcd, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{"http://" + etcd.Addr().String()}, ShutdownTimeout: 5 * time.Second}})
	client := kubernetes.NewForConfigOrDie(env.RESTConfig())
	ctx := t.Context()
	if _, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := etcd.Close(); err != nil {
		t.Fatal(err)
	}
	get := func(path string) {
		code, text, header := body(t, env, path)
		switch {
		case strings.HasSuffix(path, "z"):
			if code != http.StatusInternalServerError || !strings.Contains(text, "[-]etcd failed") {
				t.Errorf("%s: %d %s", path, code, text)
			}
		case code != http.StatusServiceUnavailable || header.Get("Retry-After") == "":
			t.Errorf("GET %s: %d %s, Retry-After %q", path, code, text, header.Get("Retry-After"))
		}
	}
	post := func(path string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, env.URL()+path, strings.NewReader(`{"metadata":{"name":"x"}}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := env.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("POST: %d", resp.StatusCode)
		}
	}
	// requests wants the quickest of some attempts to be within a limit: a busy machine is slow now and then, a server that waits always is.
	requests := func(attempts int, limit time.Duration) {
		t.Helper()
		send, method := get, http.MethodGet
		for _, path := range []string{
			"/api/v1/namespaces/default/configmaps/x", "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/secrets?limit=5", "/readyz", "/livez", "/healthz",
			"/api/v1/namespaces/default/configmaps", // the last one is written to
		} {
			if path == "/api/v1/namespaces/default/configmaps" {
				send, method = post, http.MethodPost
			}
			took := limit + 1
			for range attempts {
				began := time.Now()
				send(path)
				if took = min(took, time.Since(began)); took <= limit {
					break
				}
			}
			if took > limit {
				t.Errorf("%s %s took more than %s", method, path, limit)
			}
		}
	}
	requests(1, 30*time.Second) // a request has a minute
	requests(10, 1500*time.Millisecond)
}

// TestWithoutWatchCache: everything is served from etcd.
func TestWithoutWatchCache(t *testing.T) {
	env := servertest.Start(t, servertest.Options{Config: server.Config{Storage: server.StorageConfig{DisableWatchCache: true}}})
	client := kubernetes.NewForConfigOrDie(env.RESTConfig())
	ctx := t.Context()
	list, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-watch.ResultChan(); e.Type != "ADDED" {
		t.Errorf("event %v", e)
	}
}
