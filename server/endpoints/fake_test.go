package endpoints

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
