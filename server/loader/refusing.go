package loader

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// refusingLayer fails every write of a resource whose strategy is known but cannot be run.
type refusingLayer struct {
	rest.NoHooks
	name   string
	reason error
}

var _ rest.Layer = refusingLayer{}

// Name implements rest.Layer.
func (refusingLayer) Name() string { return "unavailable" }

// Implements implements rest.Layer.
func (refusingLayer) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate | rest.HookValidateDelete)
}

func (l refusingLayer) refuse() error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("strategy %q of this resource is not available yet, so no write can be checked: %v", l.name, l.reason))
}

// Validate implements rest.Hooks.
func (l refusingLayer) Validate(context.Context, *document.Document) (field.ErrorList, error) {
	return nil, l.refuse()
}

// ValidateUpdate implements rest.Hooks.
func (l refusingLayer) ValidateUpdate(context.Context, *document.Document, *document.Document) (field.ErrorList, error) {
	return nil, l.refuse()
}

// ValidateDelete implements rest.Hooks.
func (l refusingLayer) ValidateDelete(context.Context, *document.Document) (field.ErrorList, error) {
	return nil, l.refuse()
}
