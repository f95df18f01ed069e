// Package extensiontest runs cases of policies/policytest against layers of a strategy.
package extensiontest

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/server/rest"
)

// Subject returns layers, which run in this order, as a subject of cases.
func Subject(layers ...rest.Layer) policytest.Subject { return subject(layers) }

type subject []rest.Layer

// Run implements policytest.Subject.
func (s subject) Run(ctx context.Context, hook string, obj, old *document.Document) (policytest.Outcome, error) {
	out := policytest.Outcome{Object: obj}
	for _, l := range s {
		if err := runHook(ctx, l, hook, old, &out); err != nil {
			return out, fmt.Errorf("%s: %w", l.Name(), err)
		}
	}
	return out, nil
}

func runHook(ctx context.Context, l rest.Layer, hook string, old *document.Document, out *policytest.Outcome) (err error) {
	var (
		errs     field.ErrorList
		warnings []string
	)
	switch hook {
	case "default":
		out.Object, err = l.Default(ctx, out.Object)
	case "prepareForCreate":
		out.Object, err = l.PrepareForCreate(ctx, out.Object)
	case "prepareForUpdate":
		out.Object, err = l.PrepareForUpdate(ctx, out.Object, old)
	case "canonicalize":
		out.Object, err = l.Canonicalize(ctx, out.Object)
	case "validateCreate":
		errs, err = l.Validate(ctx, out.Object)
	case "validateUpdate":
		errs, err = l.ValidateUpdate(ctx, out.Object, old)
	case "validateDelete":
		errs, err = l.ValidateDelete(ctx, out.Object)
	case "warningsOnCreate":
		warnings, err = l.WarningsOnCreate(ctx, out.Object)
	case "warningsOnUpdate":
		warnings, err = l.WarningsOnUpdate(ctx, out.Object, old)
	default:
		return fmt.Errorf("hook %q does not exist", hook)
	}
	if err != nil {
		return err
	}
	for _, e := range errs {
		got := policytest.FieldError{Type: string(e.Type), Field: e.Field, Detail: &e.Detail}
		if e.BadValue != (field.OmitValueType{}) {
			if got.Value, err = document.FromValue(e.BadValue); err != nil {
				return err
			}
		}
		out.Errors = append(out.Errors, got)
	}
	out.Warnings = append(out.Warnings, warnings...)
	return nil
}
