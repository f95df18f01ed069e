package server_test

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// TestEventTTL: an Event has a lease of the time that the configuration says, from its creation and again from each
// change, and nothing else has one.
func TestEventTTL(t *testing.T) {
	// The lease that an Event shares with others may be a twentieth longer, a minute at most.
	for name, tc := range map[string]struct {
		config, want, more time.Duration
	}{
		"default":   {0, time.Hour, time.Minute},
		"two hours": {2 * time.Hour, 2 * time.Hour, time.Minute},
		"a minute":  {time.Minute, time.Minute, 3 * time.Second},
		"for ever":  {-1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			at, etcd := externalEtcd(t)
			env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}, Storage: server.StorageConfig{EventTTL: tc.config}}})
			client := kubernetes.NewForConfigOrDie(env.RESTConfig()).CoreV1()
			ctx := t.Context()
			granted := func(key string) time.Duration {
				t.Helper()
				resp, err := etcd.Get(ctx, key)
				if err != nil || resp.Count != 1 {
					t.Fatalf("%s: %v, %v", key, resp, err)
				}
				if resp.Kvs[0].Lease == 0 {
					return 0
				}
				lease, err := etcd.TimeToLive(ctx, clientv3.LeaseID(resp.Kvs[0].Lease))
				if err != nil {
					t.Fatal(err)
				}
				return time.Duration(lease.GrantedTTL) * time.Second
			}
			check := func(what string) {
				t.Helper()
				if got := granted("/registry/events/default/e"); got != tc.want+tc.more {
					t.Errorf("%s: a lease of %s, want %s and at most %s more", what, got, tc.want, tc.more)
				}
			}
			event, err := client.Events("default").Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"},
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}, Reason: "Tried"}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			check("created")
			event.Count = 2
			if _, err := client.Events("default").Update(ctx, event, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			check("updated")
			if _, err := client.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := granted("/registry/configmaps/default/c"); got != 0 {
				t.Errorf("a ConfigMap has a lease of %s", got)
			}
		})
	}
	config := server.Config{BindAddress: "127.0.0.1", Storage: server.StorageConfig{EventTTL: time.Millisecond}}
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "--event-ttl") {
		t.Errorf("less than a second: %v, want an error about --event-ttl", err)
	}
}

// TestEventExpires: an Event whose time is over is gone, and its watchers are told.
func TestEventExpires(t *testing.T) {
	env := servertest.Start(t, servertest.Options{Config: server.Config{Storage: server.StorageConfig{EventTTL: time.Second}}})
	client := kubernetes.NewForConfigOrDie(env.RESTConfig()).CoreV1().Events("default")
	ctx := t.Context()
	event, err := client.Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "brief"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: event.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	e, ok := <-w.ResultChan()
	gone, _ := e.Object.(*corev1.Event)
	if !ok || e.Type != watch.Deleted || gone == nil || gone.UID != event.UID {
		t.Fatalf("got %v, want a deletion of %s", e, event.UID)
	}
	if _, err := client.Get(ctx, "brief", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get: %v, want not found", err)
	}
}
