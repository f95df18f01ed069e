package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// scope is what a request is about: the resource that its path names, in the
// catalog that is pinned to it.
type scope struct {
	catalog  rest.Catalog
	resource *rest.Resource
	version  *rest.Version
	// sub is nil for the resource itself.
	sub *rest.Subresource

	// namespace is "" for the cluster and for all namespaces.
	namespace string
	// name is "" for a collection.
	name string

	// storage has the verbs.
	storage any
	// kind of the objects that are taken and given.
	kind schema.GroupVersionKind
	// gvr is the resource of the path.
	gvr schema.GroupVersionResource
	// schema may be nil.
	schema rest.Schema
	// fields may be nil.
	fields rest.FieldManager
	// converter is nil where the version served is the stored one.
	converter rest.Converter
}

// newScope resolves the path. What is not there is a 404.
func newScope(req *restful.Request) (*scope, error) {
	ctx := req.Request.Context()
	p := req.PathParameters()
	catalog := rest.CatalogFrom(ctx)
	if catalog == nil {
		return nil, errNoCatalog()
	}
	sc := &scope{
		catalog:   catalog,
		namespace: p["namespace"],
		name:      p["name"],
		gvr:       schema.GroupVersionResource{Group: p["group"], Version: p["version"], Resource: p["resource"]},
	}
	subresource := p["subresource"]
	if sc.gvr.Resource == "" { // the static routes of namespaces
		sc.gvr.Resource = "namespaces"
		subresource = req.Request.URL.Path[strings.LastIndexByte(req.Request.URL.Path, '/')+1:]
	}
	notFound := newRouteNotFound(req.Request, sc.gvr.GroupResource())
	if sc.gvr.Resource == "watch" || sc.gvr.Resource == "proxy" { // upstream's old verbs by path
		return nil, notFound
	}
	if err := sc.agrees(ctx, req.Request.Method, subresource); err != nil {
		return nil, err
	}
	sc.resource = catalog.Resource(sc.gvr.Group, sc.gvr.Resource)
	if sc.resource == nil {
		return nil, notFound
	}
	sc.version = sc.resource.Version(sc.gvr.Version)
	if sc.version == nil {
		return nil, notFound
	}
	_, inNamespace := p["namespace"]
	if inNamespace != sc.resource.Namespaced {
		// Only a list or watch may span namespaces. A cluster resource never has a
		// namespace in its path (CVE-2019-11247).
		list := req.Request.Method == http.MethodGet && sc.name == ""
		if inNamespace || !list {
			return nil, notFound
		}
	}
	for _, segment := range []string{sc.namespace, sc.name} {
		if segment == "" {
			continue
		}
		if msgs := content.IsPathSegmentName(segment); len(msgs) > 0 {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("name parameter %q is invalid: %s", segment, strings.Join(msgs, ", ")))
		}
	}
	if _, named := p["name"]; (inNamespace && sc.namespace == "") || (named && sc.name == "") {
		return nil, notFound
	}

	sc.storage = sc.version.Storage
	sc.kind = schema.GroupVersionKind{Group: sc.resource.Group, Version: sc.version.Name, Kind: sc.resource.Kind}
	sc.schema = sc.version.Schema
	sc.fields = sc.version.Fields
	if sc.version.Name != sc.resource.StorageVersion {
		sc.converter = sc.version.Converter
	}
	if subresource == "" {
		return sc, nil
	}
	sc.sub = sc.version.Subresources[subresource]
	if sc.sub == nil || sc.sub.Storage == nil {
		return nil, notFound
	}
	sc.storage = sc.sub.Storage
	sc.fields = sc.sub.Fields
	if !sc.ownKind() {
		sc.kind = sc.sub.GroupVersionKind
		sc.schema = sc.sub.Schema
		sc.converter = nil
	} else if sc.sub.Schema != nil {
		sc.schema = sc.sub.Schema
	}
	return sc, nil
}

// ownKind reports whether the request is about objects of the resource's kind: the resource itself, or a subresource such
// as status, and not scale.
func (sc *scope) ownKind() bool {
	return sc.sub == nil || sc.sub.Kind == "" ||
		sc.sub.GroupVersionKind == schema.GroupVersionKind{Group: sc.resource.Group, Version: sc.version.Name, Kind: sc.resource.Kind}
}

// agrees refuses a path that the filters, which authorized it, have read
// differently. The one that is known to be is a collection in a namespace, which has the form of a subresource of
// that namespace: the routes of the collection come first, and what is left is a method that it does not have.
func (sc *scope) agrees(ctx context.Context, method, subresource string) error {
	info, ok := request.InfoFrom(ctx)
	if !ok {
		return nil
	}
	same := info.IsResourceRequest &&
		info.APIGroup == sc.gvr.Group && info.APIVersion == sc.gvr.Version &&
		info.Resource == sc.gvr.Resource && info.Subresource == subresource &&
		(sc.name == "" || info.Name == sc.name) &&
		(sc.namespace == "" || info.Namespace == sc.namespace)
	if sc.gvr.Resource == "namespaces" && subresource != "" && info.Resource == subresource && info.Name == "" {
		return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, methodVerb(method),
			schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, "", "405: Method Not Allowed", 0, false)
	}
	if !same {
		return apierrors.NewBadRequest("the path of the request is ambiguous")
	}
	return nil
}

// subresource returns the name of the subresource or "".
func (sc *scope) subresource() string {
	if sc.sub == nil {
		return ""
	}
	return sc.sub.Name
}

// context returns ctx with the namespace that storage is to use.
func (sc *scope) context(ctx context.Context) context.Context {
	return request.WithNamespace(ctx, sc.namespace)
}

// warnDeprecated adds the warning that every request of a deprecated version gets.
func (sc *scope) warnDeprecated(ctx context.Context) {
	if !sc.version.Deprecated && sc.version.DeprecationWarning == "" {
		return
	}
	audit.AddAuditAnnotation(ctx, "k8s.io/deprecated", "true") // upstream's
	text := sc.version.DeprecationWarning
	if text == "" {
		text = fmt.Sprintf("%s %s is deprecated", sc.kind.GroupVersion(), sc.kind.Kind)
	}
	warning.AddWarning(ctx, "", text)
}

// errNotSupported is the error for a verb that the storage does not have.
func (sc *scope) errNotSupported(verb string) error {
	gr := sc.gvr.GroupResource()
	if sc.sub != nil {
		gr.Resource += "/" + sc.sub.Name
	}
	return apierrors.NewMethodNotSupported(gr, verb)
}

// newRouteNotFound is the 404 for a path that leads nowhere, in the words of client-go.
func newRouteNotFound(req *http.Request, gr schema.GroupResource) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, methodVerb(req.Method), gr, "", "404 page not found", 0, false)
}

// errNoCatalog: the filter that pins one is missing.
func errNoCatalog() error {
	return apierrors.NewInternalError(errors.New("request has no catalog"))
}
