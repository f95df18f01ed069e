package policy

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// MaxParams bounds how many objects the selector of one binding may select.
const MaxParams = 1000

// paramSet is what a ParamRef came to, for one request.
type paramSet struct {
	kind schema.GroupVersionKind
	ref  *ParamRef
	list []*document.Document
	err  error
}

// noParams is the list of a policy or binding without params: it is judged once, by null.
var noParams = []*document.Document{nil}

// paramKindServed returns what is wrong with a policy whose params are of a kind that is not served, in upstream's words.
func (e *evaluation) paramKindServed(p *Policy) error {
	if p.ParamKind == nil {
		return nil
	}
	if r, _ := e.index.resourceOf(e.catalog, *p.ParamKind); r == nil {
		return fmt.Errorf("failed to find resource referenced by paramKind: '%v'", *p.ParamKind)
	}
	return nil
}

// paramsFor returns the params of a binding, which is judged once by each. They are the most recent: a param whose write
// has returned, to whatever server, is seen.
func (e *evaluation) paramsFor(kind *schema.GroupVersionKind, ref *ParamRef) ([]*document.Document, error) {
	if kind == nil || ref == nil {
		return noParams, nil
	}
	for _, s := range e.params {
		if s.ref == ref && s.kind == *kind {
			return s.list, s.err
		}
	}
	s := &paramSet{kind: *kind, ref: ref}
	s.list, s.err = e.readParams(*kind, ref)
	if s.err == nil && len(s.list) == 0 && ref.DenyMissing {
		s.err = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	e.params = append(e.params, s)
	return s.list, s.err
}

func (e *evaluation) readParams(kind schema.GroupVersionKind, ref *ParamRef) ([]*document.Document, error) {
	r, version := e.index.resourceOf(e.catalog, kind)
	if r == nil {
		return nil, fmt.Errorf("paramKind kind `%s` not known", kind)
	}
	namespace := ""
	switch {
	case r.Namespaced && ref.Namespace != "":
		namespace = ref.Namespace
	case r.Namespaced && e.attributes.Namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	case r.Namespaced:
		namespace = e.attributes.Namespace
	case ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	}
	given := e.givenParams(kind, namespace, ref)
	if len(given) > 0 && ref.Name != "" {
		return given, nil
	}
	list, err := readParams(request.WithNamespace(e.ctx, namespace), version.Storage, ref)
	if err != nil {
		return nil, err
	}
	for i, obj := range list {
		if list[i], err = Convert(e.ctx, r, obj, r.StorageVersion, kind.Version); err != nil {
			return nil, fmt.Errorf("param %q: %w", rest.MetaOf(obj).Name(), err)
		}
	}
	return withGiven(given, list), nil
}

func readParams(ctx context.Context, storage any, ref *ParamRef) ([]*document.Document, error) {
	if ref.Name != "" {
		getter, ok := storage.(rest.Getter)
		if !ok {
			return nil, errors.New("objects of the paramKind cannot be read")
		}
		obj, err := getter.Get(ctx, ref.Name, &metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []*document.Document{obj}, nil
	}
	lister, ok := storage.(rest.Lister)
	if !ok {
		return nil, errors.New("objects of the paramKind cannot be listed")
	}
	found, err := lister.List(ctx, &internalversion.ListOptions{LabelSelector: ref.Selector, Limit: MaxParams})
	if err != nil {
		return nil, err
	}
	if found.Continue != "" {
		return nil, fmt.Errorf("paramRef.selector selects more than %d objects", MaxParams)
	}
	return append([]*document.Document{}, found.Items...), nil
}

// kindEntry is where a kind is served.
type kindEntry struct {
	resource *rest.Resource
	version  *rest.Version
}

// resourceOf returns the resource of a kind in the catalog that the index belongs to, nil where it is not served.
func (x *Index) resourceOf(catalog rest.Catalog, kind schema.GroupVersionKind) (*rest.Resource, *rest.Version) {
	if known, ok := x.kinds.Load(kind); ok {
		entry := known.(kindEntry)
		return entry.resource, entry.version
	}
	var entry kindEntry
	for _, r := range catalog.Resources() {
		if r.Group == kind.Group && r.Kind == kind.Kind {
			if v := r.Version(kind.Version); v != nil {
				entry = kindEntry{resource: r, version: v}
				break
			}
		}
	}
	x.kinds.Store(kind, entry)
	return entry.resource, entry.version
}
