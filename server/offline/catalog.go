package offline

import (
	"context"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// catalog implements policy.Catalog. It is immutable.
type catalog struct {
	resources map[schema.GroupResource]*rest.Resource
	policies  *policy.Index
}

var _ policy.Catalog = (*catalog)(nil)

// Resource implements rest.Catalog.
func (c *catalog) Resource(group, name string) *rest.Resource {
	return c.resources[schema.GroupResource{Group: group, Resource: name}]
}

// Resources implements rest.Catalog.
func (c *catalog) Resources() []*rest.Resource {
	return slices.SortedFunc(maps.Values(c.resources), func(a, b *rest.Resource) int {
		return strings.Compare(a.GroupResource().String(), b.GroupResource().String())
	})
}

// Generation implements rest.Catalog.
func (*catalog) Generation() uint64 { return 1 }

// Policies implements policy.Catalog.
func (c *catalog) Policies() *policy.Index { return c.policies }

// ofKind returns the resource of a kind, and its version, nil where it is not served.
func (c *catalog) ofKind(kind schema.GroupVersionKind) (*rest.Resource, *rest.Version) {
	for _, r := range c.resources {
		if r.Group == kind.Group && r.Kind == kind.Kind {
			if v := r.Version(kind.Version); v != nil {
				return r, v
			}
		}
	}
	return nil, nil
}

// inMemory returns a resource whose objects are those of the request that asks for them.
func inMemory(r *rest.Resource) *rest.Resource {
	out := *r
	out.Versions = make([]*rest.Version, 0, len(r.Versions))
	for _, v := range r.Versions {
		version := *v
		m := memory{resource: r}
		if s, ok := v.Storage.(stored); ok {
			m.strategy = s.Strategy()
		}
		version.Storage = m
		out.Versions = append(out.Versions, &version)
	}
	return &out
}

// memory reads the objects of a resource that are there for a request.
type memory struct {
	resource *rest.Resource
	strategy rest.Strategy // nil for what is not stored
}

var (
	_ rest.Getter = memory{}
	_ rest.Lister = memory{}
)

// Get implements rest.Getter.
func (m memory) Get(ctx context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	s := surroundingsFrom(ctx)
	for _, obj := range m.objects(ctx, s) {
		if own := rest.MetaOf(obj).Name(); own == name || own == "" {
			return obj, nil
		}
	}
	if s != nil {
		for _, b := range s.bound {
			if m.holds(b.Object) && rest.MetaOf(b.Object).Name() == name {
				return b.Object, nil
			}
		}
	}
	return nil, apierrors.NewNotFound(m.resource.GroupResource(), name)
}

// List implements rest.Lister.
func (m memory) List(ctx context.Context, opts *internalversion.ListOptions) (*rest.List, error) {
	list, s := &rest.List{}, surroundingsFrom(ctx)
	for _, obj := range m.objects(ctx, s) {
		if opts.LabelSelector == nil || opts.LabelSelector.Matches(rest.MetaOf(obj).Labels()) {
			list.Items = append(list.Items, obj)
		}
	}
	if len(list.Items) > 0 || s == nil {
		return list, nil
	}
	of, presumed := opts.LabelSelector.(ofPolicy)
	for _, b := range s.bound {
		if m.holds(b.Object) && (presumed && of.kind == b.Kind && of.name == b.Policy || !presumed && opts.LabelSelector.Matches(rest.MetaOf(b.Object).Labels())) &&
			!slices.ContainsFunc(list.Items, b.Object.Equal) {
			list.Items = append(list.Items, b.Object)
		}
	}
	return list, nil
}

// holds reports whether an object is one of the resource.
func (m memory) holds(obj *document.Document) bool {
	kind := rest.KindOf(obj)
	return kind.Group == m.resource.Group && kind.Kind == m.resource.Kind
}

// objects are those of the set in the request's namespace. One that names no namespace is in all.
func (m memory) objects(ctx context.Context, s *surroundings) []*document.Document {
	switch {
	case s == nil:
		return nil
	case s.params != nil:
		return s.params
	}
	namespace, _ := request.NamespaceFrom(ctx)
	var list []*document.Document
	for _, obj := range s.objects[m.resource.GroupResource()] {
		if own := rest.MetaOf(obj).Namespace(); !m.resource.Namespaced || own == "" || own == namespace {
			list = append(list, obj)
		}
	}
	return list
}

// ofPolicy selects everything, for the presumed binding of a policy.
type ofPolicy struct {
	labels.Selector
	kind, name string
}

// surroundings are what is there when a request is judged, apart from it.
type surroundings struct {
	namespace *document.Document
	// params, where they are not nil, are what every binding finds.
	params []*document.Document
	// objects are those of the set.
	objects map[schema.GroupResource][]*document.Document
	// bound are what was found when the request was made.
	bound []BoundParam
	// allow is what users may do.
	allow lookup.Allowed
}

// asksRequest tells modules what the request that they judge says that users may do.
type asksRequest struct{}

var _ lookup.Authorizer = asksRequest{}

// Authorize implements lookup.Authorizer.
func (asksRequest) Authorize(ctx context.Context, a *abi.AuthorizeRequest) (bool, error) {
	if s := surroundingsFrom(ctx); s != nil {
		return s.allow.Authorize(ctx, a)
	}
	return false, nil
}

type surroundingsKey struct{}

func surroundingsFrom(ctx context.Context) *surroundings {
	s, _ := ctx.Value(surroundingsKey{}).(*surroundings)
	return s
}

// namespaces gives the namespace that a request is judged in, one without anything but a name where nothing is known
// of it.
type namespaces struct{}

var namespaceResource = schema.GroupResource{Resource: "namespaces"}

// Get implements rest.Getter.
func (namespaces) Get(ctx context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	if s := surroundingsFrom(ctx); s != nil {
		if s.namespace != nil {
			return s.namespace, nil
		}
		for _, obj := range s.objects[namespaceResource] {
			if rest.MetaOf(obj).Name() == name {
				return obj, nil
			}
		}
	}
	return document.FromValue(map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
		"status":   map[string]any{"phase": "Active"}})
}
