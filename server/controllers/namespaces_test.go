package controllers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/registry"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
)

// catalog is a fixed rest.Catalog.
type catalog []*rest.Resource

func (c catalog) Resources() []*rest.Resource { return c }
func (c catalog) Generation() uint64          { return 1 }
func (c catalog) Resource(group, name string) *rest.Resource {
	for _, r := range c {
		if r.Group == group && r.Name == name {
			return r
		}
	}
	return nil
}

// onlyDelete is a storage without a collection to delete.
type onlyDelete struct {
	rest.Lister
	rest.Watcher
	rest.GracefulDeleter
}

type cluster struct {
	namespaces       *registry.Namespaces
	finalize, status *registry.Subresource
	widgets, gadgets *registry.Store
	catalog          catalog
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	st, err := etcd3.New(etcd3.Config{Client: etcd3test.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	strategy := func(cfg rest.GenericConfig) rest.Strategy {
		g, err := rest.NewGeneric(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	store := func(name, kind string) *registry.Store {
		gr := schema.GroupResource{Group: "example.com", Resource: name}
		s, err := registry.New(registry.Config{Resource: gr, Prefix: "/registry/example.com/" + name, Storage: st, Strategy: strategy(rest.GenericConfig{
			Resource: gr, Kind: schema.GroupVersionKind{Group: gr.Group, Version: "v1", Kind: kind}, Namespaced: true,
		})})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ns := rest.GenericConfig{
		Resource: schema.GroupResource{Resource: "namespaces"}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"},
		StatusEnabled: true, NoGeneration: true, Layers: []rest.Layer{registry.NamespaceLayer{}},
		Keeps: [][]string{{"spec", "finalizers"}}, NameValidator: validation.ValidateNamespaceName,
	}
	c := &cluster{widgets: store("widgets", "Widget"), gadgets: store("gadgets", "Gadget")}
	if c.namespaces, err = registry.NewNamespaces(registry.Config{Resource: ns.Resource, Prefix: "/registry/namespaces", Storage: st, Strategy: strategy(ns)}); err != nil {
		t.Fatal(err)
	}
	ns.Subresource = "status"
	c.status = c.namespaces.Store().Subresource(strategy(ns))
	ns.Subresource, ns.Writes = "finalize", [][]string{{"spec", "finalizers"}}
	c.finalize = c.namespaces.Store().Subresource(strategy(ns))
	resource := func(group, name string, namespaced bool, storage any) *rest.Resource {
		return &rest.Resource{Group: group, Name: name, Namespaced: namespaced, Versions: []*rest.Version{{Name: "v1", Storage: storage}}}
	}
	c.catalog = catalog{
		resource("", "namespaces", false, c.namespaces),
		resource("example.com", "gadgets", true, onlyDelete{c.gadgets, c.gadgets, c.gadgets}),
		resource("example.com", "reviews", true, nil),
		resource("example.com", "widgets", true, c.widgets),
	}
	return c
}

// run starts the controller and ends it, and checks that it ends, with the test. creater, unless it is nil, makes the
// system namespaces.
func (c *cluster) run(t *testing.T, creater rest.Creater) {
	t.Helper()
	config := NamespacesConfig{
		Namespaces: c.namespaces, Finalize: c.finalize, Status: c.status,
		Catalog: func(context.Context) (rest.Catalog, error) { return c.catalog, nil }, Resync: time.Hour,
	}
	if creater != nil {
		config.System, config.Creater = SystemNamespaces(), creater
	}
	controller, err := NewNamespaces(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		controller.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (c *cluster) create(t *testing.T, s *registry.Store, kind, namespace, meta string) {
	t.Helper()
	obj, err := document.Parse([]byte(fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{%s}}`, kind, meta)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(request.WithNamespace(t.Context(), namespace), obj, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// await watches a namespace until it is as wanted; nil is a namespace that is gone.
func (c *cluster) await(t *testing.T, name string, wanted func(ns *document.Document) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	list, err := c.namespaces.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var live *document.Document
	for _, ns := range list.Items {
		if rest.MetaOf(ns).Name() == name {
			live = ns
		}
	}
	if wanted(live) {
		return
	}
	w, err := c.namespaces.Watch(ctx, &internalversion.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("waiting for namespace %s: %v", name, err)
		}
		for _, e := range events {
			if rest.MetaOf(e.Object).Name() != name {
				continue
			}
			if obj := e.Object; e.Type == "DELETED" && wanted(nil) || e.Type != "DELETED" && wanted(obj) {
				return
			}
		}
	}
}

func gone(ns *document.Document) bool { return ns == nil }

func TestBootstrap(t *testing.T) {
	c := newCluster(t)
	for range 2 {
		if err := Bootstrap(t.Context(), c.namespaces, SystemNamespaces()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.namespaces.List(t.Context(), nil)
	if err != nil || len(list.Items) != 4 {
		t.Fatalf("%d namespaces, %v", len(list.Items), err)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	c := newCluster(t)
	if err := Bootstrap(t.Context(), c.namespaces, []string{"early", "late", "stays"}); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"early", "late", "stays"} {
		c.create(t, c.widgets, "Widget", ns, `"name":"w1"`)
		c.create(t, c.widgets, "Widget", ns, `"name":"w2"`)
		c.create(t, c.gadgets, "Gadget", ns, `"name":"g"`)
	}
	remove := func(name string) {
		t.Helper()
		if _, deleted, err := c.namespaces.Delete(t.Context(), name, nil, nil); err != nil || deleted {
			t.Fatalf("delete %s: %v %v", name, deleted, err)
		}
	}
	remove("early") // before the controller runs
	c.run(t, nil)
	c.await(t, "early", gone)
	remove("late")
	c.await(t, "late", gone)
	for _, s := range []*registry.Store{c.widgets, c.gadgets} {
		list, err := s.List(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range list.Items {
			if rest.MetaOf(obj).Namespace() != "stays" {
				t.Errorf("left over: %s", obj.Bytes())
			}
		}
	}
	if n, err := c.widgets.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("%d widgets, %v", n, err)
	}
}

func TestNamespaceWaitsForFinalizers(t *testing.T) {
	c := newCluster(t)
	if err := Bootstrap(t.Context(), c.namespaces, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	c.create(t, c.widgets, "Widget", "a", `"name":"held","finalizers":["example.com/f"]`)
	c.create(t, c.widgets, "Widget", "a", `"name":"free"`)
	c.run(t, nil)
	if _, _, err := c.namespaces.Delete(t.Context(), "a", nil, nil); err != nil {
		t.Fatal(err)
	}
	c.await(t, "a", func(ns *document.Document) bool {
		if ns == nil {
			t.Fatal("namespace is gone before its content")
		}
		text := string(ns.Get("status", "conditions").Raw())
		return strings.Contains(text, "Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances") &&
			strings.Contains(text, "Some resources are remaining: widgets.example.com has 1 resource instances")
	})
	ctx := request.WithNamespace(t.Context(), "a")
	free := rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		return old.Edit().Delete("metadata", "finalizers").Document()
	})
	if _, _, err := c.widgets.Update(ctx, "held", free, nil, nil, false, nil); err != nil {
		t.Fatal(err)
	}
	c.await(t, "a", gone)
}

// sparing is a Creater that fails, each time, for the first namespace that it is asked for after another one went.
type sparing struct {
	rest.Creater
	left atomic.Int32
}

func (s *sparing) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	if s.left.Add(-1) >= 0 {
		return nil, errors.New("not now")
	}
	return s.Creater.Create(ctx, obj, validate, opts)
}

// System namespaces that are missing at the start or that go while the controllers run, of which there are several, come back.
func TestSystemNamespacesComeBack(t *testing.T) {
	c := newCluster(t)
	if err := Bootstrap(t.Context(), c.namespaces, []string{metav1.NamespaceDefault, "other"}); err != nil {
		t.Fatal(err)
	}
	creater := &sparing{Creater: c.namespaces}
	creater.left.Store(1)
	c.run(t, creater)
	c.run(t, c.namespaces)
	exists := func(ns *document.Document) bool { return ns != nil }
	for _, name := range SystemNamespaces() {
		c.await(t, name, exists)
	}
	for _, name := range append(SystemNamespaces(), "other") {
		obj, err := c.namespaces.Get(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		uid := rest.MetaOf(obj).UID()
		creater.left.Store(1)
		if _, _, err := c.namespaces.Delete(t.Context(), name, nil, nil); err != nil {
			t.Fatal(err)
		}
		if name == "other" {
			c.await(t, name, gone)
			continue
		}
		c.await(t, name, func(ns *document.Document) bool { return ns != nil && rest.MetaOf(ns).UID() != uid })
	}
	list, err := c.namespaces.List(t.Context(), nil)
	if err != nil || len(list.Items) != len(SystemNamespaces()) {
		t.Errorf("%d namespaces, %v", len(list.Items), err)
	}
}

// restored is a NamespaceReader that has seen a namespace being deleted, at first; then nobody has deleted it.
type restored struct {
	NamespaceReader
	gets atomic.Int32
}

func (r *restored) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	obj, err := r.NamespaceReader.Get(ctx, name, opts)
	if err == nil && r.gets.Add(1) == 1 {
		return obj.Edit().Set("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp").Document()
	}
	return obj, err
}

// The content of a namespace stays, and its finalizer, where the storage was restored from a state before its deletion.
func TestNamespaceOfRestored(t *testing.T) {
	for _, content := range []bool{true, false} {
		t.Run(fmt.Sprintf("content %t", content), func(t *testing.T) {
			c := newCluster(t)
			if err := Bootstrap(t.Context(), c.namespaces, []string{"a"}); err != nil {
				t.Fatal(err)
			}
			if content {
				c.create(t, c.widgets, "Widget", "a", `"name":"w"`)
			}
			reader := &restored{NamespaceReader: c.namespaces}
			controller, err := NewNamespaces(NamespacesConfig{Namespaces: reader, Finalize: c.finalize, Status: c.status,
				Catalog: func(context.Context) (rest.Catalog, error) { return c.catalog, nil }})
			if err != nil {
				t.Fatal(err)
			}
			controller.end(t.Context(), "a")
			ns, err := c.namespaces.Get(t.Context(), "a", nil)
			if err != nil || len(finalizers(ns)) != 1 || ns.Get("status", "conditions").Exists() {
				t.Errorf("the namespace is %s, %v", ns.Bytes(), err)
			}
			if n, err := c.widgets.Count(t.Context()); err != nil || (n == 1) != content {
				t.Errorf("%d widgets, %v", n, err)
			}
		})
	}
}

// unlistable is a NamespaceReader that cannot list, as where kube-apiserver stored the namespaces.
type unlistable struct{ NamespaceReader }

func (unlistable) List(context.Context, *internalversion.ListOptions) (*rest.List, error) {
	return nil, errors.New("it is protobuf")
}

// An operator is told why no namespace ends.
func TestNamespacesTellsOfFailures(t *testing.T) {
	c := newCluster(t)
	log, lines := io.Pipe()
	controller, err := NewNamespaces(NamespacesConfig{Namespaces: unlistable{c.namespaces}, Finalize: c.finalize, Status: c.status,
		Catalog: func(context.Context) (rest.Catalog, error) { return c.catalog, nil }, Logger: slog.New(slog.NewTextHandler(lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer lines.Close()
	defer cancel()
	run.Go(func() { controller.Run(ctx) })
	defer time.AfterFunc(30*time.Second, func() { lines.Close() }).Stop()
	line, err := bufio.NewReader(log).ReadString('\n')
	if err != nil || !strings.Contains(line, "level=WARN") || !strings.Contains(line, "it is protobuf") {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestNamespacesConfig(t *testing.T) {
	c := newCluster(t)
	for _, config := range []NamespacesConfig{
		{},
		{Namespaces: c.namespaces, Finalize: c.finalize, Status: c.status, Catalog: func(context.Context) (rest.Catalog, error) { return c.catalog, nil }, System: SystemNamespaces()},
	} {
		if _, err := NewNamespaces(config); err == nil {
			t.Errorf("accepted %+v", config)
		}
	}
}

// Why a namespace cannot be emptied is told once.
func TestNamespaceTellsOnce(t *testing.T) {
	c := newCluster(t)
	if err := Bootstrap(t.Context(), c.namespaces, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.namespaces.Delete(t.Context(), "a", nil, nil); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	attempts := 0
	controller, err := NewNamespaces(NamespacesConfig{Namespaces: c.namespaces, Finalize: c.finalize, Status: c.status,
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Catalog: func(context.Context) (rest.Catalog, error) {
			if attempts++; attempts == 4 {
				cancel()
			}
			return nil, errors.New("away")
		}})
	if err != nil {
		t.Fatal(err)
	}
	controller.Run(ctx)
	if n := strings.Count(log.String(), "cannot be emptied"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
}
