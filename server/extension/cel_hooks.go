package extension

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// begin starts a run over an object and, in an update, the old one.
func (l *CELLayer) begin(obj, old *document.Document) policies.Run {
	run := l.program.Begin()
	run.Bind(inputObject, obj.Root())
	if old != nil {
		run.Bind(inputOldObject, old.Root())
	}
	return run
}

// Validate implements rest.Hooks.
func (l *CELLayer) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	return l.validate(ctx, obj, nil)
}

// ValidateUpdate implements rest.Hooks.
func (l *CELLayer) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	return l.validate(ctx, obj, old)
}

func (l *CELLayer) validate(ctx context.Context, obj, old *document.Document) (errs field.ErrorList, err error) {
	run := l.begin(obj, old)
	for i := range l.validations {
		v := &l.validations[i]
		if old == nil && !v.onCreate {
			continue
		}
		if v.forEach == nil {
			if errs, err = l.check(ctx, run, v, match{value: obj.Root(), index: -1}, nil, errs); err != nil {
				return nil, err
			}
			continue
		}
		walk(obj.Root(), v.forEach, func(m match) bool {
			at := policies.Locals{Item: m.value, Items: m.list, Index: m.index}
			if v.wantsPath {
				at.Path = fieldPath(m.steps)
			}
			errs, err = l.check(ctx, run, v, m, &at, errs)
			return err == nil
		})
		if err != nil {
			return nil, err
		}
	}
	return errs, nil
}

// check evaluates one rule for the object or one item, and appends what is wrong.
func (l *CELLayer) check(ctx context.Context, run policies.Run, v *validation, m match, at *policies.Locals, errs field.ErrorList) (field.ErrorList, error) {
	verdict, err := run.Eval(ctx, v.expression, at)
	if err != nil {
		return l.ruleFailed(ctx, err, v.text, m, v.path, errs)
	}
	if verdict.Bool {
		return errs, nil
	}
	message := v.message
	if v.messageExp != none {
		text, err := run.Eval(ctx, v.messageExp, at)
		if ctx.Err() != nil {
			return nil, err
		}
		if err == nil && usable(text.String) {
			message = text.String
		}
	}
	if message == "" && v.kind != field.ErrorTypeRequired && v.kind != field.ErrorTypeDuplicate {
		message = "failed expression: " + strings.TrimSpace(v.text)
	}
	return append(errs, fieldError(v.kind, m, v.path, message)), nil
}

// ruleFailed appends that a rule could not be evaluated. That a request ended is no
// fault of the object.
func (l *CELLayer) ruleFailed(ctx context.Context, err error, text string, m match, path []step, errs field.ErrorList) (field.ErrorList, error) {
	if ctx.Err() != nil || !judged(err) {
		return nil, err
	}
	message := fmt.Sprintf("%v evaluating rule: %s", err, strings.TrimSpace(text))
	return append(errs, fieldError(field.ErrorTypeInvalid, m, path, message)), nil
}

// judged reports whether an error says something about the object.
func judged(err error) bool {
	var (
		eval *policies.EvalError
		cost *policies.CostError
	)
	return errors.As(err, &eval) || errors.As(err, &cost)
}

// maxMessageBytes is where upstream stops to use a message.
const maxMessageBytes = 5 << 10

// usable reports whether the value of a messageExpression is taken, by upstream's rule.
func usable(s string) bool {
	return strings.TrimSpace(s) != "" && len(s) <= maxMessageBytes && !strings.Contains(s, "\n")
}

// fieldError makes a field error for the value at path below a match.
func fieldError(kind field.ErrorType, m match, path []step, detail string) *field.Error {
	e := &field.Error{Type: kind, Field: fieldPath(m.steps, path), Detail: detail}
	switch kind {
	case field.ErrorTypeRequired, field.ErrorTypeForbidden:
		e.BadValue = ""
		return e
	default:
	}
	if e.Field == "" { // the object as a whole: do not repeat it
		e.Field, e.BadValue = "<nil>", field.OmitValueType{}
		return e
	}
	v := m.value
	for _, s := range path {
		if s.index >= 0 {
			v = v.Index(s.index)
		} else {
			v = v.Get(s.name)
		}
	}
	e.BadValue = v.Interface()
	return e
}

// WarningsOnCreate implements rest.Hooks.
func (l *CELLayer) WarningsOnCreate(ctx context.Context, obj *document.Document) ([]string, error) {
	return l.warn(ctx, obj, nil)
}

// WarningsOnUpdate implements rest.Hooks.
func (l *CELLayer) WarningsOnUpdate(ctx context.Context, obj, old *document.Document) ([]string, error) {
	return l.warn(ctx, obj, old)
}

// warn evaluates the warnings. One that cannot be evaluated is no reason to refuse the
// object: the client is told of that instead.
func (l *CELLayer) warn(ctx context.Context, obj, old *document.Document) (warnings []string, err error) {
	run := l.begin(obj, old)
	for i := range l.warnings {
		w := &l.warnings[i]
		if w.forEach == nil {
			if warnings, err = l.warnOne(ctx, run, w, nil, warnings); err != nil {
				return nil, err
			}
			continue
		}
		walk(obj.Root(), w.forEach, func(m match) bool {
			at := policies.Locals{Item: m.value, Items: m.list, Index: m.index}
			if w.wantsPath {
				at.Path = fieldPath(m.steps)
			}
			warnings, err = l.warnOne(ctx, run, w, &at, warnings)
			return err == nil
		})
		if err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

func (l *CELLayer) warnOne(ctx context.Context, run policies.Run, w *warningRule, at *policies.Locals, warnings []string) ([]string, error) {
	verdict, err := run.Eval(ctx, w.expression, at)
	if err != nil {
		if ctx.Err() != nil || !judged(err) {
			return nil, err
		}
		return append(warnings, fmt.Sprintf("%s: %v evaluating warning: %s", l.name, err, strings.TrimSpace(w.text))), nil
	}
	if !verdict.Bool {
		return warnings, nil
	}
	message := w.message
	if w.messageExp != none {
		text, err := run.Eval(ctx, w.messageExp, at)
		if ctx.Err() != nil {
			return nil, err
		}
		if err == nil && usable(text.String) {
			message = text.String
		}
	}
	if message == "" {
		message = "warning: " + strings.TrimSpace(w.text)
	}
	return append(warnings, message), nil
}

// fail makes the error of a hook that changes the object: Invalid, where a rule could not
// be evaluated on it.
func (l *CELLayer) fail(obj *document.Document, path string, err error) error {
	var (
		eval *policies.EvalError
		cost *policies.CostError
		text string
	)
	switch {
	case errors.As(err, &eval):
		text = eval.Text
	case errors.As(err, &cost):
		text = cost.Text
	default:
		return err
	}
	if path == "" {
		path = "<nil>"
	}
	return invalid(obj, field.ErrorList{{
		Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("%v evaluating rule: %s", err, strings.TrimSpace(text)),
	}})
}

// invalid makes the Status of an object with errors.
func invalid(obj *document.Document, errs field.ErrorList) error {
	group, _ := splitAPIVersion(obj.Get("apiVersion").String())
	gk := schema.GroupKind{Group: group, Kind: obj.Get("kind").String()}
	return apierrors.NewInvalid(gk, obj.Get("metadata", "name").String(), errs)
}
