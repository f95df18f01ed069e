package extension

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/rest"
)

// Default implements rest.Hooks.
func (l *CELLayer) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	obj, err := l.mutate(ctx, l.normalize, obj, nil)
	if err != nil || len(l.defaults) == 0 {
		return obj, err
	}
	var (
		run  = l.begin(obj, nil)
		edit *document.Edit // changes that are not in obj yet
	)
	flush := func() (err error) {
		if edit == nil {
			return nil
		}
		if obj, err = edit.Document(); err != nil {
			return err
		}
		edit = nil
		run.Bind(inputObject, obj.Root())
		return nil
	}
	for i := range l.defaults {
		d := &l.defaults[i]
		if d.flush {
			if err := flush(); err != nil {
				return nil, l.fail(obj, "", err)
			}
		}
		var failed error
		walk(obj.Root(), d.parent, func(m match) bool {
			if m.value.Kind() != document.Object {
				return true
			}
			present := m.value.Get(d.field.name)
			if k := present.Kind(); k != document.Absent && k != document.Null && !d.merge {
				return true
			}
			value, err := l.defaultValue(ctx, run, d, m)
			if err != nil {
				failed = err
				return false
			}
			if value == nil {
				return true
			}
			if edit == nil {
				edit = obj.Edit()
			}
			if d.merge && value.Root().Kind() != document.Object {
				failed = &policies.EvalError{Text: d.text, Err: errors.New("value to merge is not an object")}
				return false
			}
			path := append(editPath(m.steps), d.field.name)
			if !d.merge || present.Kind() != document.Object {
				edit.Set(value, path...)
				return true
			}
			for name, v := range value.Root().Members() {
				if !present.Get(name).Exists() {
					edit.Set(v, append(slices.Clone(path), name)...)
				}
			}
			return true
		})
		if failed != nil {
			return nil, l.fail(obj, fieldPath(d.parent, []step{d.field}), failed)
		}
	}
	if err := flush(); err != nil {
		return nil, l.fail(obj, "", err)
	}
	return obj, nil
}

// defaultValue gives the value for a field of m, nil where the rule does not apply.
func (l *CELLayer) defaultValue(ctx context.Context, run policies.Run, d *defaultRule, m match) (*document.Document, error) {
	at := policies.Locals{Item: m.value, Items: m.list, Index: m.index, Path: fieldPath(m.steps)}
	if d.when != none {
		when, err := run.Eval(ctx, d.when, &at)
		if err != nil || !when.Bool {
			return nil, err
		}
	}
	value, err := run.Eval(ctx, d.value, &at)
	if err != nil {
		return nil, err
	}
	return value.Value, nil
}

// PrepareForCreate implements rest.Hooks.
func (l *CELLayer) PrepareForCreate(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return l.mutate(ctx, l.onCreate, obj, nil)
}

// PrepareForUpdate implements rest.Hooks.
func (l *CELLayer) PrepareForUpdate(ctx context.Context, obj, old *document.Document) (*document.Document, error) {
	return l.mutate(ctx, l.onUpdate, obj, old)
}

func (l *CELLayer) mutate(ctx context.Context, mutations []mutation, obj, old *document.Document) (*document.Document, error) {
	if len(mutations) == 0 {
		return obj, nil
	}
	run := l.begin(obj, old)
	for i := range mutations {
		next, err := l.mutateOne(ctx, run, &mutations[i], obj)
		if err != nil {
			return nil, l.fail(obj, "", err)
		}
		if next != obj {
			obj = next
			run.Bind(inputObject, obj.Root())
		}
	}
	return obj, nil
}

func (l *CELLayer) mutateOne(ctx context.Context, run policies.Run, m *mutation, obj *document.Document) (*document.Document, error) {
	if m.when != none {
		when, err := run.Eval(ctx, m.when, nil)
		if err != nil || !when.Bool {
			return obj, err
		}
	}
	if m.apply != none {
		config, err := run.Eval(ctx, m.apply, nil)
		if err != nil {
			return nil, err
		}
		merged, err := obj.ApplyMergePatch(config.Value)
		if err != nil {
			return nil, &policies.EvalError{Text: m.text, Err: err}
		}
		return m.changed(obj, merged)
	}
	patch, err := run.Eval(ctx, m.json, nil)
	if err != nil {
		return nil, err
	}
	patched, err := applyJSONPatch(obj, patch.Value)
	if err != nil {
		return nil, &policies.EvalError{Text: m.text, Err: err}
	}
	return m.changed(obj, patched)
}

// changed returns what a mutation made of old, old itself where that is equal.
func (m *mutation) changed(old, obj *document.Document) (*document.Document, error) {
	if field := rest.IdentityChange(old, obj); field != "" {
		return nil, &policies.EvalError{Text: m.text, Err: fmt.Errorf("%s may not be changed", field)}
	}
	return unchanged(old, obj), nil
}

// applyJSONPatch applies an RFC 6902 patch. One whose test fails changes nothing.
func applyJSONPatch(obj, patch *document.Document) (*document.Document, error) {
	patched, err := obj.ApplyPatch(patch, abi.MaxObjectBytes)
	if errors.Is(err, document.ErrTestFailed) {
		return obj, nil
	}
	if err != nil {
		return nil, fmt.Errorf("json patch: %w", err)
	}
	if patched.Root().Kind() != document.Object {
		return nil, errors.New("json patch: the result is not an object")
	}
	return patched, nil
}
