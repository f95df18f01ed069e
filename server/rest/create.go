package rest

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
)

// BeforeCreate brings a new object, which Initialize has begun, to what will be
// stored: Default, PrepareForCreate, Default again, metadata and Validate, warnings,
// Canonicalize. An object that is not valid is an apierrors Invalid with every
// fault; all errors are APIStatus.
func BeforeCreate(ctx context.Context, strategy Strategy, obj *document.Document) (*document.Document, error) {
	if err := CheckMetadata(obj); err != nil {
		return nil, err
	}
	obj, err := EnsureNamespace(obj, expectedNamespace(ctx, strategy))
	if err != nil {
		return nil, err
	}
	if obj, err = strategy.Default(ctx, obj); err != nil {
		return nil, err
	}
	prepared, err := strategy.PrepareForCreate(ctx, obj)
	if err != nil {
		return nil, err
	}
	if obj, err = defaultAgain(ctx, strategy, prepared, obj); err != nil {
		return nil, err
	}
	if g, ok := strategy.(Generationer); ok {
		if obj, err = setGeneration(obj, g.Generation(obj, nil)); err != nil {
			return nil, err
		}
	}

	errs, err := validateMeta(strategy, obj)
	if err != nil {
		return nil, err
	}
	more, err := strategy.Validate(ctx, obj)
	if err != nil {
		return nil, err
	}
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(KindOf(obj).GroupKind(), MetaOf(obj).Name(), errs)
	}

	warnings, err := strategy.WarningsOnCreate(ctx, obj)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		warning.AddWarning(ctx, "", w)
	}
	return strategy.Canonicalize(ctx, obj)
}

// Generationer is a Strategy whose objects count in metadata.generation how often
// what is wanted of them changed.
type Generationer interface {
	// Generation of obj, which replaces old; old is nil for a new object. 0: the object has none.
	Generation(obj, old *document.Document) int64
}

// defaulted is a Strategy whose PrepareFor hooks give defaulted objects already.
type defaulted interface{ preparesDefaulted() }

func defaultAgain(ctx context.Context, strategy Strategy, prepared, before *document.Document) (*document.Document, error) {
	if _, ok := strategy.(defaulted); ok || prepared == before {
		return prepared, nil
	}
	return strategy.Default(ctx, prepared)
}

func setGeneration(obj *document.Document, generation int64) (*document.Document, error) {
	have := obj.Get("metadata", "generation")
	if generation == 0 {
		if !have.Exists() {
			return obj, nil
		}
		return obj.Edit().Delete("metadata", "generation").Document()
	}
	if n, ok := have.Int(); ok && n == generation {
		return obj, nil
	}
	return obj.Edit().Set(generation, "metadata", "generation").Document()
}

func expectedNamespace(ctx context.Context, strategy Strategy) string {
	if !strategy.NamespaceScoped() {
		return ""
	}
	ns, _ := request.NamespaceFrom(ctx)
	return ns
}
