package loader

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	return apierrors.NewServiceUnavailable(fmt.Sprintf("strategy %q of this resource is not available, so no write can be checked: %v", l.name, l.reason))
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

// terminatingLayer refuses new objects of a definition that is being deleted, as upstream does: its objects are being
// removed, and none must be left behind.
type terminatingLayer struct{ rest.NoHooks }

var _ rest.Layer = terminatingLayer{}

// terminating puts the refusal before other layers, which may be nil.
func terminating(layers func(subresource string) []rest.Layer) func(subresource string) []rest.Layer {
	return func(subresource string) []rest.Layer {
		all := []rest.Layer{terminatingLayer{}}
		if layers != nil {
			all = append(all, layers(subresource)...)
		}
		return all
	}
}

// Name implements rest.Layer.
func (terminatingLayer) Name() string { return "terminating" }

// Implements implements rest.Layer.
func (terminatingLayer) Implements() rest.HookSet { return rest.HookSet(rest.HookPrepareForCreate) }

// PrepareForCreate implements rest.Hooks.
func (terminatingLayer) PrepareForCreate(_ context.Context, obj *document.Document) (*document.Document, error) {
	gv, _ := schema.ParseGroupVersion(obj.Get("apiVersion").String()) // the kind of an error's details, at most empty
	err := apierrors.NewMethodNotSupported(schema.GroupResource{Group: gv.Group, Resource: obj.Get("kind").String()}, "create")
	err.ErrStatus.Message = "create not allowed while custom resource definition is terminating"
	return nil, err
}
