package extension

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// Lookuper answers guests from the caches of the resources in force, in whatever state they are: no look-up of a resource
// that has a cache asks the storage, nor waits for a cache that is being filled or for a write that is under way. There is
// no answer until the cache is filled, which Keep has it be and stay. Its zero value knows only the resources of requests.
type Lookuper struct {
	// Holder has what is in force where the context of a call has no catalog, since it is of no request; nil: nothing is.
	Holder func() *Holder
}

var _ host.Lookuper = Lookuper{}

// Lookup implements host.Lookuper. Objects are in the version in which they are stored.
func (l Lookuper) Lookup(ctx context.Context, q *lookup.Query) (*lookup.Found, error) {
	memory := &storage.Memory{MaxRows: q.MaxScan}
	ctx, release, err := l.from(ctx, memory)
	if err != nil {
		return nil, err
	}
	defer release()
	r := rest.CatalogFrom(ctx).Resource(q.Group, q.Resource)
	switch {
	case r == nil || len(r.Versions) == 0:
		return nil, abi.EINVAL
	case r.Namespaced && q.Name != "" && q.Namespace == "", !r.Namespaced && q.Namespace != "":
		return nil, abi.EINVAL
	}
	ctx = request.WithNamespace(ctx, q.Namespace)
	if q.Name != "" {
		return get(ctx, r.Versions[0].Storage, q)
	}
	found, err := list(ctx, r.Versions[0].Storage, q)
	switch {
	case memory.Exceeded:
		return nil, abi.E2BIG
	case err != nil:
		return nil, err
	}
	found.Scanned = max(memory.Rows, len(found.Items))
	return found, nil
}

// from returns the context of reads from memory, which has a catalog.
func (l Lookuper) from(ctx context.Context, memory *storage.Memory) (context.Context, func(), error) {
	ctx = storage.WithMemory(ctx, memory)
	if rest.CatalogFrom(ctx) != nil {
		return ctx, func() {}, nil
	}
	if l.Holder == nil {
		return nil, nil, errors.New("no resources are known")
	}
	snapshot, release := l.Holder().Acquire()
	return rest.WithCatalog(ctx, snapshot), release, nil
}

// Keep has the cache of a resource filled, and used as far as it stops when nobody uses it. With wait it returns when the cache
// is filled, else it does not wait. A resource that does not exist has none.
func (l Lookuper) Keep(ctx context.Context, group, resource string, wait bool) error {
	ctx, release, err := l.from(ctx, &storage.Memory{Wait: wait})
	if err != nil {
		return err
	}
	defer release()
	r := rest.CatalogFrom(ctx).Resource(group, resource)
	if r == nil || len(r.Versions) == 0 {
		return nil
	}
	lister, ok := r.Versions[0].Storage.(rest.Lister)
	if !ok {
		return nil
	}
	o := &internalversion.ListOptions{Limit: 1, ResourceVersion: anyList, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	_, err = lister.List(request.WithNamespace(ctx, ""), o)
	return err
}

// anyAge is the resourceVersion of an object in whatever state the cache has it.
const anyAge = "0"

func get(ctx context.Context, from any, q *lookup.Query) (*lookup.Found, error) {
	getter, ok := from.(rest.Getter)
	if !ok {
		return nil, abi.EINVAL
	}
	obj, err := getter.Get(ctx, q.Name, &metav1.GetOptions{ResourceVersion: anyAge})
	switch {
	case apierrors.IsNotFound(err):
		return &lookup.Found{}, nil
	case err != nil:
		return nil, refused(err)
	}
	return &lookup.Found{ResourceVersion: rest.MetaOf(obj).ResourceVersion(), Items: []*document.Document{obj}}, nil
}

// anyList is the resourceVersion of a list in whatever state the cache has it. Of "0" the limit would be ignored.
const anyList = "1"

func list(ctx context.Context, from any, q *lookup.Query) (*lookup.Found, error) {
	lister, ok := from.(rest.Lister)
	if !ok {
		return nil, abi.EINVAL
	}
	o := &internalversion.ListOptions{Limit: int64(q.Limit), ResourceVersion: anyList, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	var err error
	if q.LabelSelector != "" {
		if o.LabelSelector, err = labels.Parse(q.LabelSelector); err != nil {
			return nil, abi.EINVAL
		}
	}
	if q.FieldSelector != "" {
		if o.FieldSelector, err = fields.ParseSelector(q.FieldSelector); err != nil {
			return nil, abi.EINVAL
		}
	}
	page, err := lister.List(ctx, o)
	if err != nil {
		return nil, refused(err)
	}
	return &lookup.Found{ResourceVersion: page.ResourceVersion, Items: page.Items, More: page.Continue != ""}, nil
}

// refused is the guest's error where what it asks for is wrong.
func refused(err error) error {
	if apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) {
		return abi.EINVAL
	}
	return err
}

// Authorizer answers guests with the decisions of the server's authorizer.
type Authorizer struct{ Authorizer authorizer.Authorizer }

var _ host.Authorizer = Authorizer{}

// Authorize implements host.Authorizer. As in a SubjectAccessReview, what is not allowed for an error is not allowed. What
// the server itself does, for no user, it may do.
func (z Authorizer) Authorize(ctx context.Context, a *abi.AuthorizeRequest) (bool, error) {
	who, ok := request.UserFrom(ctx)
	if s := a.ServiceAccount; s != nil {
		who = serviceaccount.UserInfo(s.Namespace, s.Name, "")
	} else if !ok || who == nil {
		return true, nil
	}
	record := authorizer.AttributesRecord{User: who, Verb: a.Verb, Path: a.Path}
	if a.Path == "" {
		record = authorizer.AttributesRecord{
			User: who, Verb: a.Verb, Namespace: a.Namespace, APIGroup: a.Group, APIVersion: "*",
			Resource: a.Resource, Subresource: a.Subresource, Name: a.Name, ResourceRequest: true,
		}
	}
	decision, _, err := z.Authorizer.Authorize(ctx, record)
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("authorizer: %w", errors.Join(context.Cause(ctx), err))
	}
	return false, nil
}
