package extension_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// shelf stores objects of one resource, and notes how it is asked.
type shelf struct {
	objects map[string]*document.Document // by namespace/name
	err     error
	get     *metav1.GetOptions
	list    *internalversion.ListOptions
	in      string
	looks   int // how many objects a list looks at
}

func (s *shelf) Get(ctx context.Context, name string, o *metav1.GetOptions) (*document.Document, error) {
	s.get = o
	namespace, _ := request.NamespaceFrom(ctx)
	if s.err != nil {
		return nil, s.err
	}
	if obj := s.objects[namespace+"/"+name]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (s *shelf) List(ctx context.Context, o *internalversion.ListOptions) (*rest.List, error) {
	s.list = o
	s.in, _ = request.NamespaceFrom(ctx)
	if s.err != nil {
		return nil, s.err
	}
	page := &rest.List{ResourceVersion: "40", Continue: "more"}
	for _, obj := range s.objects {
		page.Items = append(page.Items, obj)
	}
	if err := storage.MemoryFrom(ctx).Look(s.looks); err != nil {
		return nil, err
	}
	return page, nil
}

// catalogOf has configmaps and nodes on a shelf, and a resource that cannot be read.
func catalogOf(t *testing.T, s *shelf) rest.Catalog {
	t.Helper()
	serve := func(name string, namespaced bool, storage any) *rest.Resource {
		return &rest.Resource{Name: name, Namespaced: namespaced, StorageVersion: "v1", Versions: []*rest.Version{{Name: "v1", Storage: storage}}}
	}
	snapshot, err := extension.NewSnapshot(extension.SnapshotConfig{Resources: []*rest.Resource{
		serve("configmaps", true, s), serve("nodes", false, s), serve("reviews", false, struct{}{}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func TestLookuper(t *testing.T) {
	away := apierrors.NewServiceUnavailable("the cache is not ready")
	tests := []struct {
		name, request string
		err           error // of the storage
		want          error
		items         int
		version       string
		looks         int
	}{
		{name: "one", request: `{"resource":"configmaps","namespace":"shop","name":"a"}`, items: 1, version: "12"},
		{name: "absent", request: `{"resource":"configmaps","namespace":"shop","name":"b"}`},
		{name: "a list", request: `{"resource":"configmaps","namespace":"shop","labelSelector":"a=b","fieldSelector":"metadata.name=a","limit":7}`, items: 1, version: "40"},
		{name: "a long list", request: `{"resource":"configmaps"}`, items: 1, version: "40", looks: 1000},
		{name: "one that is too long", request: `{"resource":"configmaps"}`, looks: 1001, want: abi.E2BIG},
		{name: "without a namespace", request: `{"resource":"configmaps","name":"a"}`, want: abi.EINVAL},
		{name: "with one too many", request: `{"resource":"nodes","namespace":"shop","name":"a"}`, want: abi.EINVAL},
		{name: "no such resource", request: `{"resource":"nothings"}`, want: abi.EINVAL},
		{name: "no such group", request: `{"group":"apps","resource":"configmaps"}`, want: abi.EINVAL},
		{name: "one of what is not stored", request: `{"resource":"reviews","name":"a"}`, want: abi.EINVAL},
		{name: "a list of it", request: `{"resource":"reviews"}`, want: abi.EINVAL},
		{name: "a bad label selector", request: `{"resource":"configmaps","labelSelector":"a in"}`, want: abi.EINVAL},
		{name: "a bad field selector", request: `{"resource":"configmaps","fieldSelector":"a"}`, want: abi.EINVAL},
		{name: "a field that is not selectable", request: `{"resource":"configmaps","fieldSelector":"a=b"}`, err: apierrors.NewBadRequest("field label not supported: a"), want: abi.EINVAL},
		{name: "one while it is away", request: `{"resource":"configmaps","namespace":"shop","name":"a"}`, err: away, want: away},
		{name: "a list while it is away", request: `{"resource":"configmaps"}`, err: away, want: away},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := &shelf{err: tc.err, looks: tc.looks, objects: map[string]*document.Document{"shop/a": parse(t, `{"metadata":{"name":"a","namespace":"shop","resourceVersion":"12"}}`)}}
			q, err := lookup.ParseQuery([]byte(tc.request))
			if err != nil {
				t.Fatal(err)
			}
			q.MaxScan = 1000
			found, err := extension.Lookuper{}.Lookup(rest.WithCatalog(t.Context(), catalogOf(t, s)), q)
			if !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if err == nil && (len(found.Items) != tc.items || found.ResourceVersion != tc.version) {
				t.Errorf("found %+v", found)
			}
			if err == nil && tc.looks > 0 && found.Scanned != tc.looks {
				t.Errorf("%d objects were looked at, want %d", found.Scanned, tc.looks)
			}
			// Nothing may ask for the most recent state, which only the storage knows.
			if s.get != nil && s.get.ResourceVersion != "0" {
				t.Errorf("get asks for %q", s.get.ResourceVersion)
			}
			if s.list != nil && (s.list.ResourceVersion != "1" || s.list.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan || s.list.Limit == 0) {
				t.Errorf("list asks for %+v", s.list)
			}
			if tc.name == "a list" && (s.list.Limit != 7 || s.in != "shop" || s.list.LabelSelector.String() != "a=b" || s.list.FieldSelector.String() != "metadata.name=a" || !found.More) {
				t.Errorf("list of %q asks for %+v", s.in, s.list)
			}
		})
	}
	q, err := lookup.ParseQuery([]byte(`{"resource":"configmaps"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (extension.Lookuper{}).Lookup(t.Context(), q); err == nil {
		t.Error("a look-up without any resources")
	}
}

// rule is an authorizer that allows the user of a name, and notes what it is asked.
type rule struct {
	name  string
	err   error
	asked authorizer.Attributes
}

func (r *rule) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	r.asked = a
	if a.GetUser().GetName() == r.name {
		return authorizer.DecisionAllow, "", r.err
	}
	return authorizer.DecisionNoOpinion, "", r.err
}

func TestAuthorizer(t *testing.T) {
	jane := request.WithUser(t.Context(), &user.DefaultInfo{Name: "jane"})
	ended, cancel := context.WithCancel(jane)
	cancel()
	robot := &abi.ServiceAccount{Namespace: "shop", Name: "robot"}
	tests := []struct {
		name    string
		ctx     context.Context
		rule    rule
		request abi.AuthorizeRequest
		want    bool
		wantErr bool
	}{
		{name: "allowed", ctx: jane, rule: rule{name: "jane"}, request: abi.AuthorizeRequest{Verb: "get", Resource: "pods"}, want: true},
		{name: "not allowed", ctx: jane, rule: rule{name: "joe"}, request: abi.AuthorizeRequest{Verb: "get", Resource: "pods"}},
		{name: "a path", ctx: jane, rule: rule{name: "jane"}, request: abi.AuthorizeRequest{Verb: "get", Path: "/x"}, want: true},
		{name: "a service account", ctx: jane, rule: rule{name: "system:serviceaccount:shop:robot"}, request: abi.AuthorizeRequest{Verb: "get", Resource: "pods", ServiceAccount: robot}, want: true},
		{name: "the server itself", ctx: t.Context(), request: abi.AuthorizeRequest{Verb: "get", Resource: "pods"}, want: true},
		{name: "a rule that is broken", ctx: jane, rule: rule{err: errors.New("no such role")}, request: abi.AuthorizeRequest{Verb: "get", Resource: "pods"}},
		{name: "no time", ctx: ended, request: abi.AuthorizeRequest{Verb: "get", Resource: "pods"}, wantErr: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := extension.Authorizer{Authorizer: authorizer.AuthorizerFunc(tc.rule.Authorize)}.Authorize(tc.ctx, &tc.request)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("%v, %v", got, err)
			}
			if a := tc.rule.asked; a != nil && (a.GetVerb() != tc.request.Verb || a.GetResource() != tc.request.Resource || a.GetPath() != tc.request.Path || a.IsResourceRequest() != (tc.request.Path == "")) {
				t.Errorf("asked %+v", a)
			}
		})
	}
}

type sink struct{}

func (sink) ProcessEvents(...*auditinternal.Event) bool { return true }

// TestLookupsAreAudited: each look-up is in the audit event with what it saw, once for all retries, and of calls that fail
// too.
func TestLookupsAreAudited(t *testing.T) {
	ctx := audit.WithAuditContext(t.Context())
	ac := audit.AuditContextFrom(ctx)
	if err := ac.Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, sink{}); err != nil {
		t.Fatal(err)
	}
	ctx = extension.Allowance{Fuel: 1000, Timeout: time.Minute}.Begin(ctx)
	record := func(version string) []host.Lookup {
		return []host.Lookup{{Resource: "configmaps", Namespace: "shop", Name: "limits", ResourceVersion: version, Items: 1}}
	}
	obj := parse(t, `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`)
	g := &fakeGuest{ops: allOps()}
	layer := extension.NewModuleLayer(g, "")
	for _, version := range []string{"12", "12", "13"} {
		g.result = &host.Result{Lookups: record(version)}
		if _, err := layer.Validate(ctx, obj); err != nil {
			t.Fatal(err)
		}
	}
	g.err = &host.Error{Class: host.ClassTrap, Lookups: record("14")}
	if err := func() error { _, err := layer.ValidateDelete(rest.Each(ctx), obj); return err }(); err == nil {
		t.Fatal("no error")
	}
	want := map[string]string{
		"fake.module.weir.dev/lookup-1": "validateCreate lookup:configmaps shop/limits: 1 item at resourceVersion 12",
		"fake.module.weir.dev/lookup-2": "validateCreate lookup:configmaps shop/limits: 1 item at resourceVersion 13",
		"fake.module.weir.dev/lookup-3": "validateDelete lookup:configmaps shop/limits: 1 item at resourceVersion 14",

		"fake.module.weir.dev/failure-validateDelete": "trap",
	}
	if got := ac.GetEventAnnotations(); !maps.Equal(got, want) {
		t.Errorf("annotations %q", got)
	}
}

// TestAllowance: each object of a request about many has a budget of its own.
func TestAllowance(t *testing.T) {
	ctx := extension.Allowance{Fuel: 1000, Timeout: time.Minute}.Begin(t.Context())
	whole, one, two := extension.BudgetFrom(ctx), extension.BudgetFrom(rest.Each(ctx)), extension.BudgetFrom(rest.Each(ctx))
	if whole == nil || one == nil || whole == one || one == two || one.Fuel() != 1000 || one.Deadline().IsZero() {
		t.Errorf("budgets %+v, %+v, %+v", whole, one, two)
	}
	if extension.BudgetFrom(rest.Each(t.Context())) != nil {
		t.Error("a budget of no request")
	}
}
