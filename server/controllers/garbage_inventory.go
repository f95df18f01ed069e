package controllers

import (
	"context"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// collectable is what the garbage collector needs of a storage.
type collectable interface {
	rest.Getter
	rest.Updater
	rest.GracefulDeleter
}

// kindIndex finds resources by their kind. It is made anew when the catalog changes.
type kindIndex struct {
	mu         sync.Mutex
	generation uint64                              // guarded by mu
	kinds      map[schema.GroupKind]*rest.Resource // guarded by mu; never written to once made
}

// inventory returns access to the objects of a catalog.
func (x *kindIndex) inventory(catalog rest.Catalog) inventory {
	x.mu.Lock()
	defer x.mu.Unlock()
	if generation := catalog.Generation(); x.kinds == nil || x.generation != generation {
		x.generation, x.kinds = generation, map[schema.GroupKind]*rest.Resource{}
		for _, r := range catalog.Resources() {
			if storage, _ := versionOf(r); storage != nil {
				x.kinds[schema.GroupKind{Group: r.Group, Kind: r.Kind}] = r
			}
		}
	}
	return inventory{catalog: catalog, kinds: x.kinds}
}

// versionOf returns a storage of the resource, that of the version in which objects are stored where it is served.
func versionOf(r *rest.Resource) (collectable, *rest.Version) {
	if v := r.Version(r.StorageVersion); v != nil {
		if s, ok := v.Storage.(collectable); ok {
			return s, v
		}
	}
	for _, v := range r.Versions {
		if s, ok := v.Storage.(collectable); ok {
			return s, v
		}
	}
	return nil, nil
}

// inventory reads and writes objects by their identity, in the resources of one catalog.
type inventory struct {
	catalog rest.Catalog
	kinds   map[schema.GroupKind]*rest.Resource
}

// definitions are what custom resources are served by.
var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// undefined reports whether a resource was a custom one whose definition is gone by now. Custom are those whose group has a dot,
// as every definition's has.
func (c inventory) undefined(ctx context.Context, resource schema.GroupResource) (bool, error) {
	definition := identity{GroupKind: schema.GroupKind{Group: definitions.Group, Kind: "CustomResourceDefinition"}, name: resource.String()}
	if !strings.Contains(resource.Group, ".") || !c.serves(definition.GroupKind) {
		return false, nil
	}
	ctx, s, _, err := c.storage(ctx, definition)
	if err != nil {
		return false, err
	}
	if _, err = s.Get(ctx, definition.name, &metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// serves reports whether objects of a kind can be reached.
func (c inventory) serves(kind schema.GroupKind) bool { return c.kinds[kind] != nil }

// namespaced reports whether objects of a kind are in namespaces.
func (c inventory) namespaced(kind schema.GroupKind) (bool, error) {
	r := c.kinds[kind]
	if r == nil {
		return false, &unknownKindError{kind: kind}
	}
	return r.Namespaced, nil
}

func (c inventory) storage(ctx context.Context, id identity) (context.Context, collectable, *rest.Version, error) {
	r := c.kinds[id.GroupKind]
	if r == nil {
		return nil, nil, nil, &unknownKindError{kind: id.GroupKind}
	}
	ctx = rest.WithCatalog(ctx, c.catalog)
	if r.Namespaced {
		ctx = request.WithNamespace(ctx, id.namespace)
	}
	s, v := versionOf(r)
	return ctx, s, v, nil
}

// get returns the object, nil when there is none or another one has its name.
func (c inventory) get(ctx context.Context, id identity) (*document.Document, error) {
	ctx, s, _, err := c.storage(ctx, id)
	if err != nil {
		return nil, err
	}
	obj, err := s.Get(ctx, id.name, &metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case rest.MetaOf(obj).UID() != id.uid:
		return nil, nil
	}
	return obj, nil
}

// update changes the metadata of the object; change returns old when there is nothing to do. That the object is
// gone is no error.
func (c inventory) update(ctx context.Context, id identity, change func(old *document.Document) (*document.Document, error)) error {
	ctx, s, v, err := c.storage(ctx, id)
	if err != nil {
		return err
	}
	info := onUID{uid: &id.uid, UpdateFunc: func(ctx context.Context, old *document.Document) (*document.Document, error) {
		obj, err := change(old)
		// What is stored in another version than that of the tracker keeps its managedFields.
		if err != nil || obj == old || v.Fields == nil || rest.KindOf(old).Version != v.Name {
			return obj, err
		}
		return v.Fields.Update(ctx, old, obj, garbageCollectorName)
	}}
	_, _, err = s.Update(ctx, id.name, info, nil, nil, false, &metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		// The update names no resourceVersion: a conflict is another uid.
		if live, getErr := c.get(ctx, id); getErr == nil && live == nil {
			return nil
		}
	}
	return err
}

// delete deletes seen, provided that nobody changed its owners meanwhile. Without them, other changes do not
// keep it from being deleted.
func (c inventory) delete(ctx context.Context, id identity, seen *document.Document, policy metav1.DeletionPropagation) error {
	rv := rest.MetaOf(seen).ResourceVersion()
	err := c.deleteAt(ctx, id, &rv, policy)
	if !apierrors.IsConflict(err) {
		return err
	}
	live, getErr := c.get(ctx, id)
	switch {
	case getErr != nil:
		return getErr
	case live == nil:
		return nil
	case !live.Get("metadata", "ownerReferences").Equal(seen.Get("metadata", "ownerReferences")):
		return err
	}
	return c.deleteAt(ctx, id, nil, policy)
}

func (c inventory) deleteAt(ctx context.Context, id identity, resourceVersion *string, policy metav1.DeletionPropagation) error {
	ctx, s, _, err := c.storage(ctx, id)
	if err != nil {
		return err
	}
	_, _, err = s.Delete(ctx, id.name, nil, &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &id.uid, ResourceVersion: resourceVersion},
		PropagationPolicy: &policy,
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// withoutOwners returns obj without its references to the owners.
func withoutOwners(obj *document.Document, uids []types.UID) (*document.Document, error) {
	owners := obj.Get("metadata", "ownerReferences")
	keep := []any{}
	for _, v := range owners.Elements() {
		if !slices.Contains(uids, types.UID(v.Get("uid").String())) {
			keep = append(keep, v.Interface())
		}
	}
	switch len(keep) {
	case owners.Len():
		return obj, nil
	case 0:
		return obj.Edit().Delete("metadata", "ownerReferences").Document()
	}
	return obj.Edit().Set(keep, "metadata", "ownerReferences").Document()
}

// unblocking returns obj with references that do not keep its owners.
func unblocking(obj *document.Document) (*document.Document, error) {
	owners := obj.Get("metadata", "ownerReferences")
	list := make([]any, 0, owners.Len())
	changed := false
	for _, v := range owners.Elements() {
		ref, _ := v.Interface().(map[string]any)
		if blocks, _ := v.Get("blockOwnerDeletion").Bool(); blocks {
			ref["blockOwnerDeletion"] = false
			changed = true
		}
		list = append(list, ref)
	}
	if !changed {
		return obj, nil
	}
	return obj.Edit().Set(list, "metadata", "ownerReferences").Document()
}

// withoutFinalizer returns obj without a finalizer, provided that its deletion was requested.
func withoutFinalizer(obj *document.Document, finalizer string) (*document.Document, error) {
	m := rest.MetaOf(obj)
	had := m.Finalizers()
	if !m.Deleting() || !slices.Contains(had, finalizer) {
		return obj, nil
	}
	keep := []any{}
	for _, f := range had {
		if f != finalizer {
			keep = append(keep, f)
		}
	}
	if len(keep) == 0 {
		return obj.Edit().Delete("metadata", "finalizers").Document()
	}
	return obj.Edit().Set(keep, "metadata", "finalizers").Document()
}
