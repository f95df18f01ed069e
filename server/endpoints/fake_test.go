package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// memory is a storage of documents with all verbs, as little of one as the tests need.
type memory struct {
	gr     schema.GroupResource
	scoped bool

	mu      sync.Mutex
	rv      int
	objects map[string]*document.Document
	events  []rest.Event
	changed chan struct{}
	// failWatch is what Watch returns.
	failWatch error
	// conflicts makes so many updates see a stale object first.
	conflicts int
	// updates counts calls of UpdatedObject.
	updates int
}

func newMemory(gr schema.GroupResource, namespaced bool) *memory {
	return &memory{gr: gr, scoped: namespaced, objects: map[string]*document.Document{}, changed: make(chan struct{}), rv: 100}
}

func (m *memory) key(ctx context.Context, name string) string {
	ns, _ := request.NamespaceFrom(ctx)
	return ns + "/" + name
}

func (m *memory) put(key, event string, obj *document.Document) *document.Document {
	m.rv++
	rv := strconv.Itoa(m.rv)
	obj, err := obj.Edit().Set(rv, "metadata", "resourceVersion").Document()
	if err != nil {
		panic(err)
	}
	if event == "DELETED" {
		delete(m.objects, key)
	} else {
		m.objects[key] = obj
	}
	m.events = append(m.events, rest.Event{Type: event, Object: obj, ResourceVersion: rv})
	close(m.changed)
	m.changed = make(chan struct{})
	return obj
}

func (m *memory) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	if obj.Get("spec", "replicas").Exists() {
		return obj, nil
	}
	return obj.Edit().Set(int64(1), "spec", "replicas").Document()
}

func (m *memory) Get(ctx context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if obj := m.objects[m.key(ctx, name)]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(m.gr, name)
}

func (m *memory) List(ctx context.Context, opts *internalversion.ListOptions) (*rest.List, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	prefix := ""
	if ns, _ := request.NamespaceFrom(ctx); ns != "" {
		prefix = ns + "/"
	}
	list := &rest.List{ResourceVersion: strconv.Itoa(m.rv)}
	var keys []string
	for key := range m.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for i, key := range keys {
		if opts.Limit > 0 && int64(i) == opts.Limit {
			remaining := int64(len(keys) - i)
			list.Continue, list.RemainingItemCount = "next", &remaining
			break
		}
		list.Items = append(list.Items, m.objects[key])
	}
	return list, nil
}

func (m *memory) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	if err := validate(ctx, obj); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := obj.Get("metadata", "name").String()
	if m.objects[m.key(ctx, name)] != nil {
		return nil, apierrors.NewAlreadyExists(m.gr, name)
	}
	obj, err := obj.Edit().Set("uid-"+name, "metadata", "uid").Set("2026-01-02T03:04:05Z", "metadata", "creationTimestamp").Document()
	if err != nil {
		return nil, err
	}
	if len(opts.DryRun) > 0 {
		return obj, nil
	}
	return m.put(m.key(ctx, name), "ADDED", obj), nil
}

func (m *memory) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, allowCreate bool, _ *metav1.UpdateOptions) (*document.Document, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(ctx, name)
	live := m.objects[key]
	if live == nil && !allowCreate {
		return nil, false, apierrors.NewNotFound(m.gr, name)
	}
	if p := info.Preconditions(); p != nil && p.UID != nil && live != nil && string(*p.UID) != live.Get("metadata", "uid").String() {
		return nil, false, apierrors.NewConflict(m.gr, name, errors.New("uid"))
	}
	for ; m.conflicts > 0; m.conflicts-- {
		m.updates++
		if _, err := info.UpdatedObject(ctx, live); err != nil {
			return nil, false, err
		}
	}
	m.updates++
	obj, err := info.UpdatedObject(ctx, live)
	if err != nil {
		return nil, false, err
	}
	if live == nil {
		if err := create(ctx, obj); err != nil {
			return nil, false, err
		}
		return m.put(key, "ADDED", obj), true, nil
	}
	if rv := obj.Get("metadata", "resourceVersion").String(); rv != "" && rv != live.Get("metadata", "resourceVersion").String() {
		return nil, false, apierrors.NewConflict(m.gr, name, errors.New("stale"))
	}
	if err := update(ctx, obj, live); err != nil {
		return nil, false, err
	}
	return m.put(key, "MODIFIED", obj), false, nil
}

func (m *memory) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, _ *metav1.DeleteOptions) (*document.Document, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(ctx, name)
	obj := m.objects[key]
	if obj == nil {
		return nil, false, apierrors.NewNotFound(m.gr, name)
	}
	if err := validate(ctx, obj); err != nil {
		return nil, false, err
	}
	if obj.Get("metadata", "finalizers").Len() > 0 {
		return m.put(key, "MODIFIED", obj), false, nil
	}
	return m.put(key, "DELETED", obj), true, nil
}

func (m *memory) DeleteCollection(ctx context.Context, _ rest.ValidateObjectFunc, _ *metav1.DeleteOptions, opts *internalversion.ListOptions) (*rest.List, error) {
	list, err := m.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, obj := range list.Items {
		m.put(obj.Get("metadata", "namespace").String()+"/"+obj.Get("metadata", "name").String(), "DELETED", obj)
	}
	return list, nil
}

func (m *memory) Watch(_ context.Context, opts *internalversion.ListOptions) (rest.Watch, error) {
	if m.failWatch != nil {
		return nil, m.failWatch
	}
	return &memoryWatch{memory: m, initial: opts.SendInitialEvents != nil && *opts.SendInitialEvents && opts.AllowWatchBookmarks}, nil
}

type memoryWatch struct {
	memory  *memory
	seen    int
	initial bool
}

func (w *memoryWatch) Stop() {}

func (w *memoryWatch) Next(ctx context.Context) ([]rest.Event, error) {
	for {
		w.memory.mu.Lock()
		events := append([]rest.Event(nil), w.memory.events[w.seen:]...)
		w.seen = len(w.memory.events)
		changed, rv := w.memory.changed, w.memory.rv
		w.memory.mu.Unlock()
		if w.initial {
			w.initial = false
			events = append(events, rest.Event{Type: "BOOKMARK", ResourceVersion: strconv.Itoa(rv), InitialEventsEnd: true})
		}
		for _, e := range events {
			if e.Object != nil && e.Object.Get("metadata", "name").String() == "last" {
				return events, io.EOF
			}
			if e.Object != nil && e.Object.Get("metadata", "name").String() == "broken" {
				return nil, apierrors.NewResourceExpired("too old")
			}
		}
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// fieldsSchema knows apiVersion, kind, metadata, status and the fields of spec that it names.
type fieldsSchema struct{ spec sets.Set[string] }

func (s fieldsSchema) Coerce(obj *document.Document) (*document.Document, error) {
	if labels := obj.Get("metadata", "labels"); labels.Exists() && labels.Kind() != document.Object {
		return nil, apierrors.NewBadRequest("metadata.labels is no object")
	}
	return obj, nil
}

func (s fieldsSchema) Prune(obj *document.Document) (*document.Document, []string, error) {
	var unknown []string
	e := obj.Edit()
	for name := range obj.Get("spec").Members() {
		if !s.spec.Has(name) {
			unknown = append(unknown, "spec."+name)
			e.Delete("spec", name)
		}
	}
	pruned, err := e.Document()
	return pruned, unknown, err
}

// owners is a FieldManager that writes down who came last.
type owners struct{}

func (owners) Update(_ context.Context, _, obj *document.Document, manager string) (*document.Document, error) {
	return obj.Edit().Set([]any{map[string]any{"manager": manager, "operation": "Update"}}, "metadata", "managedFields").Document()
}

func (owners) Apply(_ context.Context, live, applied *document.Document, manager string, force bool) (*document.Document, error) {
	if live != nil {
		if !force && live.Get("spec", "color").Exists() && !live.Get("spec", "color").Equal(applied.Get("spec", "color")) {
			return nil, apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.color", Message: "conflict with \"other\""}}, "Apply failed with 1 conflict")
		}
		merged, err := live.ApplyMergePatch(applied)
		if err != nil {
			return nil, err
		}
		applied = merged
	}
	return applied.Edit().Set([]any{map[string]any{"manager": manager, "operation": "Apply"}}, "metadata", "managedFields").Document()
}

// renaming converts between versions: v2 calls colour what v1 calls color.
type renaming struct{ group string }

func (r renaming) Convert(_ context.Context, obj *document.Document, version string) (*document.Document, error) {
	from, to := "color", "colour"
	if version == "v1" {
		from, to = to, from
	}
	e := obj.Edit().Set(r.group+"/"+version, "apiVersion")
	if v := obj.Get("spec", from); v.Exists() {
		e.Set(v, "spec", to).Delete("spec", from)
	}
	return e.Document()
}

type fakeCatalog struct {
	resources  []*rest.Resource
	generation uint64
}

func (c *fakeCatalog) Resources() []*rest.Resource { return c.resources }
func (c *fakeCatalog) Generation() uint64          { return c.generation }
func (c *fakeCatalog) Resource(group, name string) *rest.Resource {
	for _, r := range c.resources {
		if r.Group == group && r.Name == name {
			return r
		}
	}
	return nil
}

// world is a server over fakes.
type world struct {
	*httptest.Server
	widgets    *memory
	namespaces *memory
	pods       *memory
	catalog    *fakeCatalog
}

type podSpec struct {
	Containers []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	} `json:"containers" patchStrategy:"merge" patchMergeKey:"name"`
	Replicas int64 `json:"replicas"`
}

type podStruct struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     podSpec           `json:"spec"`
}

func newWorld(t *testing.T, config Config) *world {
	t.Helper()
	w := &world{
		widgets:    newMemory(schema.GroupResource{Group: "example.com", Resource: "widgets"}, true),
		namespaces: newMemory(schema.GroupResource{Resource: "namespaces"}, false),
		pods:       newMemory(schema.GroupResource{Resource: "pods"}, true),
	}
	widgetSchema := fieldsSchema{sets.New("color", "replicas", "big")}
	patchMeta, err := strategicpatch.NewPatchMetaFromStruct(podStruct{})
	if err != nil {
		t.Fatal(err)
	}
	status := func(m *memory) map[string]*rest.Subresource {
		return map[string]*rest.Subresource{"status": {Name: "status", Storage: subStorage{m}, Fields: owners{}}}
	}
	w.catalog = &fakeCatalog{generation: 1, resources: []*rest.Resource{
		{
			Name: "namespaces", Singular: "namespace", Kind: "Namespace", ListKind: "NamespaceList", StorageVersion: "v1", ShortNames: []string{"ns"},
			Versions: []*rest.Version{{Name: "v1", Storage: w.namespaces, Subresources: status(w.namespaces)}},
		},
		{
			Name: "pods", Singular: "pod", Kind: "Pod", ListKind: "PodList", Namespaced: true, StorageVersion: "v1",
			Versions: []*rest.Version{{Name: "v1", Storage: w.pods, PatchMeta: patchMeta, Fields: owners{}}},
		},
		{
			Group: "example.com", Name: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", Namespaced: true, StorageVersion: "v1", Custom: true,
			Versions: []*rest.Version{
				{Name: "v1", Storage: w.widgets, Schema: widgetSchema, Fields: owners{}, SelectableFields: []string{"spec.color"}, Subresources: status(w.widgets), OpenAPI: widgetOpenAPI{}},
				{
					Name: "v2", Storage: w.widgets, Schema: fieldsSchema{sets.New("colour", "replicas")}, Converter: renaming{"example.com"}, Fields: owners{},
					Deprecated: true, DeprecationWarning: "example.com/v2 Widget is old",
				},
			},
		},
	}}
	handler, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.Server = httptest.NewServer(fakeFilters(handler, w.catalog))
	t.Cleanup(w.Close)
	return w
}

// subStorage serves get and update only.
type subStorage struct{ m *memory }

func (s subStorage) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	return s.m.Get(ctx, name, opts)
}

func (s subStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, c rest.ValidateObjectFunc, u rest.ValidateObjectUpdateFunc, allow bool, opts *metav1.UpdateOptions) (*document.Document, bool, error) {
	return s.m.Update(ctx, name, info, c, u, false, opts)
}

// fakeFilters do what the real chain does for this package.
func fakeFilters(next http.Handler, catalog rest.Catalog) http.Handler {
	factory := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, err := factory.NewRequestInfo(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := rest.WithCatalog(request.WithInfo(req.Context(), info), catalog)
		ctx = warning.WithWarningRecorder(ctx, headerWarnings{w.Header()})
		next.ServeHTTP(w, req.WithContext(ctx))
	})
}

type headerWarnings struct{ header http.Header }

func (h headerWarnings) AddWarning(_, text string) {
	h.header.Add("Warning", fmt.Sprintf("299 - %q", text))
}

// answer is a response that was read.
type answer struct {
	code   int
	header http.Header
	body   string
}

func (a answer) document(t *testing.T) *document.Document {
	t.Helper()
	doc, err := document.Parse([]byte(a.body))
	if err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return doc
}

func (a answer) get(t *testing.T, path ...string) string {
	t.Helper()
	v := a.document(t).Get(path...)
	if v.Kind() == document.String {
		return v.String()
	}
	return string(v.Raw())
}

// do sends a request. Headers are `Name: value` lines.
func (w *world) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", "tester/v1")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{code: resp.StatusCode, header: resp.Header, body: string(raw)}
}

const widgetsPath = "/apis/example.com/v1/namespaces/default/widgets"

func widget(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q},"spec":%s}`, name, spec)
}
