package rest

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
)

// Hooks are the points at which what is particular to a resource takes part in a
// write. Each may fail, since a guest can trap or a program exceed its budget: an
// error aborts the request and is not the client's fault, unless it is an
// apierrors.APIStatus. A hook that changes nothing returns obj itself.
type Hooks interface {
	// Default fills in what the client left out. It runs after decoding, after every
	// mutation and after a patch; it must be idempotent and must not look at anything
	// but the object.
	Default(ctx context.Context, obj *document.Document) (*document.Document, error)
	// PrepareForCreate brings a new object to its initial state, e.g. clears status.
	PrepareForCreate(ctx context.Context, obj *document.Document) (*document.Document, error)
	// Validate says what is wrong with a new object.
	Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error)
	// WarningsOnCreate returns warnings for the client of a valid new object.
	WarningsOnCreate(ctx context.Context, obj *document.Document) ([]string, error)
	// PrepareForUpdate keeps what an update must not change.
	PrepareForUpdate(ctx context.Context, obj, old *document.Document) (*document.Document, error)
	// ValidateUpdate says what is wrong with an update, the new object as a whole included.
	ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error)
	// WarningsOnUpdate returns warnings for the client of a valid update.
	WarningsOnUpdate(ctx context.Context, obj, old *document.Document) ([]string, error)
	// ValidateDelete says why an object must not be deleted.
	ValidateDelete(ctx context.Context, obj *document.Document) (field.ErrorList, error)
	// Canonicalize brings a valid object to its one form, just before it is stored.
	Canonicalize(ctx context.Context, obj *document.Document) (*document.Document, error)
}

// Strategy is Hooks and the rules of the resource that are not code. The registry
// calls it around storage.
type Strategy interface {
	Hooks
	// NamespaceScoped reports whether objects live in a namespace.
	NamespaceScoped() bool
	// AllowCreateOnUpdate lets a PUT create an object.
	AllowCreateOnUpdate() bool
	// AllowUnconditionalUpdate lets a PUT come without a resourceVersion.
	AllowUnconditionalUpdate() bool
	// ValidateName says what is wrong with a name; prefix is set for a generateName.
	ValidateName(name string, prefix bool) []string
}
