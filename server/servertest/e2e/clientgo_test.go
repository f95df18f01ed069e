package e2e_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"weir.dev/weir/server/servertest"
)

// contentTypes are those that a client of built-in kinds may speak.
var contentTypes = []string{"application/json", "application/vnd.kubernetes.protobuf"}

func clientset(t *testing.T, env *servertest.Environment, contentType string) *kubernetes.Clientset {
	t.Helper()
	config := env.RESTConfig()
	config.ContentType = contentType
	config.AcceptContentTypes = contentType + ",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}},
			},
		},
	}
}

// TestTypedClient takes a ConfigMap and a Deployment through their lives with the typed clients, in JSON and in protobuf.
func TestTypedClient(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	for _, contentType := range contentTypes {
		t.Run(contentType, func(t *testing.T) {
			client := clientset(t, env, contentType)
			name := "typed-" + contentType[len(contentType)-4:]
			configMaps := client.CoreV1().ConfigMaps("default")
			made, err := configMaps.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": name}},
				Data:       map[string]string{"text": "ü"}, BinaryData: map[string][]byte{"bytes": {0, 255, 1}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if made.UID == "" || made.ResourceVersion == "" || made.Data["text"] != "ü" || !slices.Equal(made.BinaryData["bytes"], []byte{0, 255, 1}) {
				t.Errorf("created %v", made)
			}
			list, err := configMaps.List(t.Context(), metav1.ListOptions{LabelSelector: "test=" + name})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != 1 || list.Items[0].UID != made.UID {
				t.Errorf("listed %v, want %s alone", list.Items, name)
			}
			stale := made.DeepCopy()
			made.Data["text"] = "new"
			if _, err := configMaps.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := configMaps.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("an update of an old version: %v, want a conflict", err)
			}
			w, err := configMaps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "test=" + name, ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if err := configMaps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
				select {
				case event := <-w.ResultChan():
					if got, ok := event.Object.(*corev1.ConfigMap); !ok || event.Type != want || got.Data["text"] != "new" {
						t.Fatalf("event %v, want %s of the new version", event, want)
					}
				case <-time.After(patience):
					t.Fatalf("no event, want %s", want)
				}
			}
			if _, err := configMaps.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("get of what was deleted: %v", err)
			}

			deployments := client.AppsV1().Deployments("default")
			d, err := deployments.Create(t.Context(), deployment(name), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if d.Generation != 1 || d.Spec.Replicas == nil || *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
				t.Errorf("created %+v, want generation 1 and defaults", d)
			}
			d.Status.Replicas, d.Spec.Paused = 7, true
			if d, err = deployments.UpdateStatus(t.Context(), d, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if d.Status.Replicas != 7 || d.Spec.Paused || d.Generation != 1 {
				t.Errorf("status update gave %+v, want the status alone", d)
			}
			scale, err := deployments.GetScale(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			scale.Spec.Replicas = 3
			if scale, err = deployments.UpdateScale(t.Context(), name, scale, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			d, err = deployments.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if scale.Spec.Replicas != 3 || *d.Spec.Replicas != 3 || d.Generation != 2 || d.Status.Replicas != 7 {
				t.Errorf("scaled to %+v", d)
			}
			if err := deployments.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// seen is what an informer knows, by its handlers alone.
type seen struct {
	mu      sync.Mutex
	objects map[string]string // guarded by mu; name to resourceVersion
	changed chan struct{}
}

func (s *seen) set(obj any, present bool) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	s.mu.Lock()
	if present {
		s.objects[u.GetName()] = u.GetResourceVersion()
	} else {
		delete(s.objects, u.GetName())
	}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// await waits until exactly names are known.
func (s *seen) await(t *testing.T, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for {
		s.mu.Lock()
		got := slices.Sorted(maps.Keys(s.objects))
		s.mu.Unlock()
		if slices.Equal(got, names) {
			return
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			t.Fatalf("the informer knows %v, want %v", got, names)
		}
	}
}

// TestInformerAcrossRestart follows configmaps and deployments with dynamic informers, which list by watching, while the
// server is restarted and objects come and go.
func TestInformerAcrossRestart(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	client, err := dynamic.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	typed := clientset(t, env, contentTypes[0])
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "default", nil)
	follow := func(gvr schema.GroupVersionResource) *seen {
		s := &seen{objects: map[string]string{}, changed: make(chan struct{}, 1)}
		_, err := factory.ForResource(gvr).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { s.set(obj, true) }, UpdateFunc: func(_, obj any) { s.set(obj, true) }, DeleteFunc: func(obj any) { s.set(obj, false) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	configMaps := follow(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	deployments := follow(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	// An empty collection is known to be empty.
	synced, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for gvr, ok := range factory.WaitForCacheSync(synced.Done()) {
		if !ok {
			t.Fatalf("informer of %s did not sync", gvr)
		}
	}

	put := func(name string) {
		t.Helper()
		// The first request after a restart may meet a connection that is gone.
		err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }, func() error {
			_, err := typed.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	put("b")
	if _, err := typed.AppsV1().Deployments("default").Create(t.Context(), deployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	configMaps.await(t, "a", "b")
	deployments.await(t, "web")

	if err := env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	put("c")
	if err := typed.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := typed.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	configMaps.await(t, "b", "c")
	deployments.await(t)
}

// TestDynamicClientOfCustomResource uses a kind that did not exist when the server started.
func TestDynamicClientOfCustomResource(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	client, err := dynamic.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	createFile(t, client, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", "testdata/kubectl/files/crd.yaml")
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "boats"}
	// It is served when the write of the definition has returned.
	made := createFile(t, client, gvr, "default", "testdata/kubectl/files/boat.yaml")
	if replicas, _, _ := unstructured.NestedInt64(made.Object, "spec", "replicas"); replicas != 2 {
		t.Errorf("replicas %d, want the default 2", replicas)
	}
	if _, err := client.Resource(gvr).Namespace("default").Patch(t.Context(), "argo", "application/merge-patch+json", []byte(`{"spec":{"length":0}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a length of 0: %v, want invalid", err)
	}
}
