package rest

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
)

// BeforeUpdate brings obj, which is to replace old, to what will be stored:
// metadata that an update cannot change is kept, then Default, PrepareForUpdate,
// Default again, metadata and ValidateUpdate, warnings, Canonicalize, and the generation
// last, so that it counts only what is really stored. All errors are APIStatus.
func BeforeUpdate(ctx context.Context, strategy Strategy, obj, old *document.Document) (*document.Document, error) {
	if err := CheckMetadata(obj); err != nil {
		return nil, err
	}
	obj, err := EnsureNamespace(obj, expectedNamespace(ctx, strategy))
	if err != nil {
		return nil, err
	}
	if obj, err = keepSystemFields(obj, old); err != nil {
		return nil, err
	}
	if obj, err = strategy.Default(ctx, obj); err != nil {
		return nil, err
	}
	prepared, err := strategy.PrepareForUpdate(ctx, obj, old)
	if err != nil {
		return nil, err
	}
	if obj, err = defaultAgain(ctx, strategy, prepared, obj); err != nil {
		return nil, err
	}
	// A hook has no say in these either.
	if obj, err = keepSystemFields(obj, old); err != nil {
		return nil, err
	}

	errs, err := validateMetaUpdate(strategy, obj, old)
	if err != nil {
		return nil, err
	}
	more, err := strategy.ValidateUpdate(ctx, obj, old)
	if err != nil {
		return nil, err
	}
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(KindOf(obj).GroupKind(), MetaOf(obj).Name(), errs)
	}

	warnings, err := strategy.WarningsOnUpdate(ctx, obj, old)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		warning.AddWarning(ctx, "", w)
	}
	if obj, err = strategy.Canonicalize(ctx, obj); err != nil {
		return nil, err
	}
	if g, ok := strategy.(Generationer); ok {
		return setGeneration(obj, g.Generation(obj, old))
	}
	return obj, nil
}

// keepSystemFields gives obj old's generation and creationTimestamp, its uid where obj has
// none, and a deletionTimestamp with its grace period, once there is one.
func keepSystemFields(obj, old *document.Document) (*document.Document, error) {
	o, n := old.Get("metadata"), obj.Get("metadata")
	var e *document.Edit
	keep := func(name string, always bool) {
		was := o.Get(name)
		if was.Equal(n.Get(name)) || !always && !was.Exists() {
			return
		}
		if e == nil {
			e = obj.Edit()
		}
		if was.Exists() {
			e.Set(was, "metadata", name)
		} else {
			e.Delete("metadata", name)
		}
	}
	keep("generation", true)
	keep("selfLink", true)
	keep("creationTimestamp", false)
	keep("deletionTimestamp", false)
	if n.Get("uid").String() == "" {
		keep("uid", false)
	}
	if _, ok := n.Get("deletionGracePeriodSeconds").Int(); !ok {
		keep("deletionGracePeriodSeconds", false)
	}
	if e == nil {
		return obj, nil
	}
	return e.Document()
}

// UpdateFunc is an UpdatedObjectInfo that computes the object and has no preconditions.
type UpdateFunc func(ctx context.Context, old *document.Document) (*document.Document, error)

var _ UpdatedObjectInfo = UpdateFunc(nil)

// Preconditions implements UpdatedObjectInfo.
func (UpdateFunc) Preconditions() *metav1.Preconditions { return nil }

// UpdatedObject implements UpdatedObjectInfo.
func (f UpdateFunc) UpdatedObject(ctx context.Context, old *document.Document) (*document.Document, error) {
	return f(ctx, old)
}
