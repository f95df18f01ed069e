package schema

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// Layer returns the part of the kind's strategy that its schema plays, for the objects
// themselves (subresource "") or for their status.
func (k *Kind) Layer(subresource string) rest.Layer {
	return &layer{kind: k, subresource: subresource}
}

type layer struct {
	rest.NoHooks
	kind        *Kind
	subresource string
}

var _ rest.Layer = (*layer)(nil)

// Name implements rest.Layer.
func (l *layer) Name() string { return "schema" }

// Implements implements rest.Layer.
func (l *layer) Implements() rest.HookSet {
	return rest.HookSet(rest.HookDefault | rest.HookValidate | rest.HookValidateUpdate)
}

// Default implements rest.Hooks.
func (l *layer) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return l.kind.Default(ctx, obj)
}

// Validate implements rest.Hooks.
func (l *layer) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	return l.kind.validate(ctx, obj, nil, l.subresource)
}

// ValidateUpdate implements rest.Hooks.
func (l *layer) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	return l.kind.validate(ctx, obj, old, l.subresource)
}

// validate checks obj, with ratcheting against old unless that is nil: what was invalid
// and has not changed is let through.
func (k *Kind) validate(ctx context.Context, obj, old *document.Document, subresource string) (field.ErrorList, error) {
	if err := k.validators(); err != nil || k.structural == nil {
		return nil, err
	}
	sound := k.shape.isSound(obj.Root())
	if sound && k.rules == nil {
		return nil, nil
	}
	object, err := obj.Map()
	if err != nil {
		return nil, err
	}
	var before map[string]any
	var celOptions []cel.Option
	var options []validation.ValidationOption
	if old != nil {
		if before, err = old.Map(); err != nil {
			return nil, err
		}
		correlated := common.NewCorrelatedObject(object, before, &model.Structural{Structural: k.structural})
		celOptions = append(celOptions, cel.WithRatcheting(correlated))
		if subresource == rest.SubresourceStatus {
			correlated = correlated.Key("status")
		}
		options = append(options, validation.WithRatcheting(correlated))
	}

	errs := k.validateValues(ctx, object, before, subresource, sound, options)

	// Rules run on what the schema holds to be sound only, as upstream: a rule may rely on types.
	if k.rules != nil {
		if blocking := hasBlocking(errs); blocking {
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")), nil
		}
		var oldValue any
		if before != nil {
			oldValue = before
		}
		ruleErrs, _ := k.rules.Validate(ctx, nil, k.structural, object, oldValue, celconfig.RuntimeCELCostBudget, celOptions...)
		errs = append(errs, ruleErrs...)
	}
	return errs, nil
}

// validateValues checks everything but rules. sound says that there is nothing to find.
func (k *Kind) validateValues(ctx context.Context, object, before map[string]any, subresource string, sound bool, options []validation.ValidationOption) field.ErrorList {
	if sound {
		return nil
	}
	var errs field.ErrorList
	switch subresource {
	case rest.SubresourceStatus:
		if status, ok := object["status"]; ok && k.status != nil {
			path := field.NewPath("status")
			if before == nil {
				errs = validation.ValidateCustomResource(path, status, k.status)
			} else {
				errs = validation.ValidateCustomResourceUpdate(path, status, before["status"], k.status, options...)
			}
		}
	default:
		if before == nil {
			errs = validation.ValidateCustomResource(nil, object, k.whole)
		} else {
			errs = validation.ValidateCustomResourceUpdate(nil, object, before, k.whole, options...)
		}
	}
	if subresource != rest.SubresourceStatus {
		errs = append(errs, objectmeta.Validate(ctx, nil, object, k.structural, false)...)
	}
	errs = append(errs, k.validateLists(object, before)...)
	return errs
}

// validateLists checks sets and maps; what was a duplicate before is let through as a whole, as upstream does.
func (k *Kind) validateLists(object, before map[string]any) field.ErrorList {
	errs := listtype.ValidateListSetsAndMaps(nil, k.structural, object)
	if len(errs) > 0 && before != nil && len(listtype.ValidateListSetsAndMaps(nil, k.structural, before)) > 0 {
		return nil
	}
	return errs
}

// hasBlocking reports whether errs leave an object that rules cannot be evaluated on.
func hasBlocking(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
