// Package program is one of a user of controller-runtime: a controller, and its test by envtest.
package program

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// patience is for a machine that has much else to do.
const patience = 60 * time.Second

var widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func newWidget(name string) *unstructured.Unstructured {
	w := &unstructured.Unstructured{}
	w.SetGroupVersionKind(widgets)
	w.SetNamespace("default")
	w.SetName(name)
	w.Object["spec"] = map[string]any{} // it takes the defaults
	return w
}

func newWidgets() *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(widgets.GroupVersion().WithKind("WidgetList"))
	return l
}

// reconciler keeps a ConfigMap for each Widget, and says in its status which size it has seen.
type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := newWidget("")
	if err := r.Get(ctx, req.NamespacedName, w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	size, _, err := unstructured.NestedInt64(w.Object, "spec", "size")
	if err != nil {
		return ctrl.Result{}, err
	}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.GetNamespace(), Name: w.GetName()}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, made, func() error {
		made.Data = map[string]string{"size": fmt.Sprint(size)}
		return controllerutil.SetControllerReference(w, made, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	if err := unstructured.SetNestedField(w.Object, size, "status", "observedSize"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Update(ctx, w)
}

// startManager runs the controller until the test ends or stop is called.
func startManager(t *testing.T, config *rest.Config) (c client.Client, stop func()) {
	t.Helper()
	m, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	skip := true // a second manager of the process has a controller of the same name
	err = ctrl.NewControllerManagedBy(m).For(newWidget("")).Owns(&corev1.ConfigMap{}).WithOptions(controller.Options{SkipNameValidation: &skip}).
		Complete(&reconciler{m.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	filled, done := context.WithTimeout(ctx, patience)
	defer done()
	if !m.GetCache().WaitForCacheSync(filled) {
		t.Fatal("the cache does not fill")
	}
	return m.GetClient(), func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	}
}

// eventually tries until there is no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reconciled waits until the controller has done its work for a widget, and the cache shows it.
func reconciled(t *testing.T, c client.Client, name string, size int64) {
	t.Helper()
	eventually(t, func() error {
		w, made := newWidget(name), &corev1.ConfigMap{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(w), made); err != nil {
			return err
		}
		if seen, _, _ := unstructured.NestedInt64(w.Object, "status", "observedSize"); seen != size || made.Data["size"] != fmt.Sprint(size) {
			return fmt.Errorf("observedSize is %d and the ConfigMap has %v, want %d", seen, made.Data, size)
		}
		return nil
	})
}

func TestMain(m *testing.M) {
	logf.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(m.Run())
}

// TestController starts a control plane, uses it, and starts it again on the data that it left.
func TestController(t *testing.T) {
	environment := &envtest.Environment{
		CRDDirectoryPaths: []string{"crds"}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience, AttachControlPlaneOutput: true,
	}
	environment.ControlPlane.Etcd = &envtest.Etcd{DataDir: t.TempDir()}
	environment.ControlPlane.GetAPIServer().Configure().Append("max-connection-bytes-per-sec", "0")

	config := start(t, environment)
	running := true
	t.Cleanup(func() {
		if running {
			_ = environment.Stop() // the test has failed
		}
	})
	c, stopManager := startManager(t, config)
	reader, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := reader.Watch(t.Context(), newWidgets(), client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), newWidget("one")); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-watch.ResultChan():
		if w, ok := event.Object.(*unstructured.Unstructured); !ok || event.Type != "ADDED" || w.GetName() != "one" {
			t.Errorf("the watch tells %+v", event)
		}
	case <-time.After(patience):
		t.Error("the watch tells nothing")
	}
	watch.Stop()
	reconciled(t, c, "one", 3)
	bad := newWidget("bad")
	bad.Object["spec"] = map[string]any{"size": int64(0)}
	if err := c.Create(t.Context(), bad); !apierrors.IsInvalid(err) {
		t.Errorf("a widget of size 0 gets %v, want invalid", err)
	}
	users(t, environment, c)
	stopManager()
	stop(t, environment)

	config = start(t, environment)
	c, stopManager = startManager(t, config)
	reconciled(t, c, "one", 3)
	if err := c.Create(t.Context(), newWidget("two")); err != nil {
		t.Fatal(err)
	}
	reconciled(t, c, "two", 3)
	stopManager()
	stop(t, environment)
	running = false
}

func start(t *testing.T, environment *envtest.Environment) *rest.Config {
	t.Helper()
	begin := time.Now()
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(begin).Round(time.Millisecond))
	return config
}

func stop(t *testing.T, environment *envtest.Environment) {
	t.Helper()
	begin := time.Now()
	if err := environment.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %s", time.Since(begin).Round(time.Millisecond))
}

// users may what their groups may: system:masters everything, others what roles say.
func users(t *testing.T, environment *envtest.Environment, admin client.Client) {
	t.Helper()
	master, err := environment.AddUser(envtest.User{Name: "root", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(master.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}); err != nil {
		t.Errorf("a user of system:masters: %v", err)
	}
	viewer, err := environment.AddUser(envtest.User{Name: "viewer", Groups: []string{"viewers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := viewer.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), newWidgets()); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role gets %v, want forbidden", err)
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view-widgets"},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{widgets.Group}, Resources: []string{"widgets"}, Verbs: []string{"get", "list"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "view-widgets"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view-widgets"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "viewers"}}},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.List(t.Context(), newWidgets()); err != nil {
		t.Errorf("a user with a role: %v", err)
	}
	if err := c.Create(t.Context(), newWidget("denied")); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer who creates gets %v, want forbidden", err)
	}
}
