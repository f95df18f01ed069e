package registry

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// Namespaces keeps namespaces. A Namespace ends in two steps: a request to delete it marks
// it as Terminating, and it goes when the last of its spec.finalizers is
// removed, which is done through its finalize subresource once it is empty. It has no
// DeleteCollection, as upstream.
type Namespaces struct{ store *Store }

var (
	_ rest.Getter          = (*Namespaces)(nil)
	_ rest.Lister          = (*Namespaces)(nil)
	_ rest.Watcher         = (*Namespaces)(nil)
	_ rest.Creater         = (*Namespaces)(nil)
	_ rest.Updater         = (*Namespaces)(nil)
	_ rest.GracefulDeleter = (*Namespaces)(nil)
)

// NewNamespaces returns the store of namespaces. The strategy of cfg is a
// rest.Generic with NamespaceLayer and with spec.finalizers among its Keeps.
func NewNamespaces(cfg Config) (*Namespaces, error) {
	other := cfg.DeleteDuringUpdate
	cfg.DeleteDuringUpdate = func(obj *document.Document) bool {
		return obj.Get("spec", "finalizers").Len() == 0 && (other == nil || other(obj))
	}
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Namespaces{s}, nil
}

// Store returns what is below, for subresources and attributes. Its Delete does not know of Terminating.
func (n *Namespaces) Store() *Store { return n.store }

// Default fills in what a client left out.
func (n *Namespaces) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return n.store.Default(ctx, obj)
}

// Get implements rest.Getter.
func (n *Namespaces) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	return n.store.Get(ctx, name, opts)
}

// List implements rest.Lister.
func (n *Namespaces) List(ctx context.Context, opts *internalversion.ListOptions) (*rest.List, error) {
	return n.store.List(ctx, opts)
}

// Watch implements rest.Watcher.
func (n *Namespaces) Watch(ctx context.Context, opts *internalversion.ListOptions) (rest.Watch, error) {
	return n.store.Watch(ctx, opts)
}

// Create implements rest.Creater.
func (n *Namespaces) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	return n.store.Create(ctx, obj, validate, opts)
}

// Update implements rest.Updater.
func (n *Namespaces) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, opts *metav1.UpdateOptions,
) (*document.Document, bool, error) {
	return n.store.Update(ctx, name, info, validateCreate, validateUpdate, forceAllowCreate, opts)
}

// Delete implements rest.GracefulDeleter.
func (n *Namespaces) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, opts *metav1.DeleteOptions) (*document.Document, bool, error) {
	s := n.store
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	update := storage.UpdateOptions{}
	if p := opts.Preconditions; p != nil {
		update.Preconditions = &storage.Preconditions{UID: p.UID, ResourceVersion: p.ResourceVersion}
	}
	var live *document.Document
	mark := func(withoutFields bool) (storage.Row, error) {
		return s.guaranteedUpdate(ctx, key, update, dryRun(opts.DryRun), func(current storage.Row) ([]byte, uint64, error) {
			live = document.FromCanonical(current.Value.Bytes())
			marked, err := n.terminate(ctx, live, opts)
			if err != nil {
				return nil, 0, err
			}
			if withoutFields {
				if marked, err = dropFields(marked); err != nil {
					return nil, 0, err
				}
			}
			if validate != nil {
				if err := validate(ctx, live); err != nil {
					return nil, 0, err
				}
			}
			return marked.Bytes(), s.cfg.TTLSeconds, nil
		})
	}
	row, err := mark(false)
	if storage.CodeOf(err) == storage.ErrCodeTooLarge {
		row, err = mark(true) // or it could not be deleted at all
	}
	switch {
	case err == nil:
		return document.FromCanonical(row.Value.Bytes()), false, nil
	case errors.Is(err, errPending):
		return live, false, nil
	case errors.Is(err, errDeleteNow):
		return s.Delete(ctx, name, validate, opts)
	}
	return nil, false, s.failed("delete", name, err)
}

// terminate returns the namespace as it begins to end. errPending: it has begun already.
// errDeleteNow: it has no spec.finalizers.
func (n *Namespaces) terminate(ctx context.Context, obj *document.Document, opts *metav1.DeleteOptions) (*document.Document, error) {
	s := n.store
	now := s.cfg.Now()
	if _, err := rest.BeforeDelete(ctx, s.cfg.Strategy, obj, opts, now); err != nil {
		return nil, err
	}
	m := rest.MetaOf(obj)
	switch {
	case obj.Get("spec", "finalizers").Len() == 0:
		return nil, errDeleteNow
	case m.Deleting():
		return nil, errPending
	}
	had := m.Finalizers()
	if finalizers := s.deletionFinalizers(had, opts); !sameSet(had, finalizers) {
		var err error
		if obj, err = setFinalizers(obj, finalizers); err != nil {
			return nil, err
		}
	}
	return obj.Edit().
		Set(rest.Timestamp(now), "metadata", "deletionTimestamp").
		Set("Terminating", "status", "phase").Document()
}
