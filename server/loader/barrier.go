package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// Storage is what a Barrier stands before: the verbs of a stored resource.
type Storage interface {
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.Creater
	rest.Updater
	rest.GracefulDeleter
	rest.CollectionDeleter
	// Default fills in what a client left out.
	Default(ctx context.Context, obj *document.Document) (*document.Document, error)
}

// Barrier makes writes of a configuration resource return only when what follows from them is in
// force in this process (contract 4 of hot reload).
type Barrier struct {
	Storage
	// wait waits until the event of a resourceVersion has been handled.
	wait func(ctx context.Context, resourceVersion string) error
}

var _ Storage = (*Barrier)(nil)

// NewBarrier returns a Barrier before storage.
func NewBarrier(storage Storage, wait func(ctx context.Context, resourceVersion string) error) *Barrier {
	return &Barrier{Storage: storage, wait: wait}
}

// Create implements rest.Creater.
func (b *Barrier) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	created, err := b.Storage.Create(ctx, obj, validate, opts)
	if err != nil || (opts != nil && isDryRun(opts.DryRun)) {
		return created, err
	}
	return created, b.waitFor(ctx, created)
}

// Update implements rest.Updater.
func (b *Barrier) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, opts *metav1.UpdateOptions) (*document.Document, bool, error) {
	obj, created, err := b.Storage.Update(ctx, name, info, validateCreate, validateUpdate, forceAllowCreate, opts)
	if err != nil || (opts != nil && isDryRun(opts.DryRun)) {
		return obj, created, err
	}
	return obj, created, b.waitFor(ctx, obj)
}

// Delete implements rest.GracefulDeleter.
func (b *Barrier) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, opts *metav1.DeleteOptions) (*document.Document, bool, error) {
	obj, deleted, err := b.Storage.Delete(ctx, name, validate, opts)
	if err != nil || (opts != nil && isDryRun(opts.DryRun)) {
		return obj, deleted, err
	}
	return obj, deleted, b.waitFor(ctx, obj)
}

// DeleteCorrupt implements rest.CorruptObjectDeleter. Nothing was in force of what could not be read, so that there is
// nothing to wait for.
func (b *Barrier) DeleteCorrupt(ctx context.Context, name string, opts *metav1.DeleteOptions) error {
	deleter, ok := b.Storage.(rest.CorruptObjectDeleter)
	if !ok {
		return apierrors.NewBadRequest("objects of this resource that cannot be read are not deleted")
	}
	return deleter.DeleteCorrupt(ctx, name, opts)
}

// DeleteCollection implements rest.CollectionDeleter. It deletes one by one, since only a Delete says which event
// there is to wait for.
func (b *Barrier) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, opts *metav1.DeleteOptions, list *internalversion.ListOptions) (*rest.List, error) {
	chosen, err := b.List(ctx, list)
	if err != nil {
		return nil, err
	}
	var last *document.Document
	for _, obj := range chosen.Items {
		gone, _, err := b.Storage.Delete(ctx, rest.MetaOf(obj).Name(), validate, opts.DeepCopy())
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if gone != nil {
			last = gone
		}
	}
	if opts != nil && isDryRun(opts.DryRun) {
		return chosen, nil
	}
	return chosen, b.waitFor(ctx, last)
}

// ListReadable implements rest.ReadableLister.
func (b *Barrier) ListReadable(ctx context.Context) (*rest.List, error) {
	lister, ok := b.Storage.(rest.ReadableLister)
	if !ok {
		return b.List(ctx, &internalversion.ListOptions{})
	}
	return lister.ListReadable(ctx)
}

// waitFor waits for the event of the write that gave obj. The write stands even when the wait ends
// early; only its effect may come a moment later.
func (b *Barrier) waitFor(ctx context.Context, obj *document.Document) error {
	if obj == nil {
		return nil
	}
	rv := obj.Get("metadata", "resourceVersion").String()
	if rv == "" {
		return nil
	}
	err := b.wait(ctx, rv)
	var unreadable *rest.UnreadableError
	if errors.As(err, &unreadable) {
		return stored(obj, unreadable)
	}
	return err
}

// stored says that a write stands and is not in force. Who may write in one namespace is not told what is stored in others.
func stored(obj *document.Document, why error) error {
	meta := rest.MetaOf(obj)
	text := fmt.Sprintf("the write of %q is stored, but not in force: the server cannot read other stored objects of the resource, which a list of all names, "+
		"and follows its changes when they are deleted or mended", meta.Name())
	if meta.Namespace() == "" {
		text += ": " + why.Error()
	}
	return apierrors.NewInternalError(errors.New(text))
}

func isDryRun(values []string) bool { return slices.Contains(values, metav1.DryRunAll) }

// WaitFor waits until the event of a write to a configuration resource has been handled.
func (l *Loader) WaitFor(ctx context.Context, gr schema.GroupResource, resourceVersion string) error {
	f := l.policyFollowers[gr]
	switch gr {
	case crdResource:
		f = l.crdFollower
	case moduleResource:
		f = l.moduleFollower
	case strategyResource:
		f = l.strategyFollower
	}
	if f == nil {
		return nil
	}
	if err := f.WaitFor(ctx, resourceVersion); err != nil {
		return err
	}
	// Nothing is published before every kind is known.
	return l.waitKnown(ctx)
}

// definedTimeout bounds WaitDefined.
const definedTimeout = 10 * time.Second

// WaitDefined waits until all definitions that are stored when it is called are known here: those that can be served are in the
// snapshot in force. Without it a server that starts, or whose stream of definitions lags, does not see the objects of some.
func (l *Loader) WaitDefined(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, definedTimeout)
	defer cancel()
	lister, ok := l.builtin(crdResource).(rest.Lister)
	if !ok {
		return fmt.Errorf("loader: %s cannot be listed", crdResource)
	}
	list, err := lister.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return fmt.Errorf("loader: stored definitions: %w", err)
	}
	if err := l.waitKnown(ctx); err != nil {
		return fmt.Errorf("loader: configuration is not known yet: %w", err)
	}
	for _, obj := range list.Items {
		if !l.lacksDefinition(obj) {
			continue
		}
		name := rest.MetaOf(obj).Name()
		if err := l.crdFollower.WaitFor(ctx, rest.MetaOf(obj).ResourceVersion()); err != nil {
			return fmt.Errorf("loader: definition %q is not known yet: %w", name, err)
		}
		if l.lacksDefinition(obj) { // or the storage was restored, which is not known yet
			return fmt.Errorf("loader: definition %q is gone meanwhile", name)
		}
	}
	return nil
}

// lacksDefinition reports whether a stored definition that can be read is not known.
func (l *Loader) lacksDefinition(obj *document.Document) bool {
	l.mu.Lock()
	s := l.crds[rest.MetaOf(obj).Name()]
	known := s != nil && s.crd.UID == rest.MetaOf(obj).UID()
	l.mu.Unlock()
	if known {
		return false
	}
	_, err := decodeCRD(obj)
	return err == nil
}
