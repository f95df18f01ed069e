package loader

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/rest"
)

// guard validates a configuration kind in Go alone: no rule that is itself configuration can lock out its repair.
type guard struct {
	rest.NoHooks
	name     string
	validate func(obj *document.Document) (field.ErrorList, error)
}

var _ rest.Layer = guard{}

// ModuleGuard returns the layer that validates Modules.
func ModuleGuard() rest.Layer { return guard{name: "module-guard", validate: validateModule} }

// StrategyGuard returns the layer that validates Strategies: what does not compile is refused when it is
// written, with the place and a caret.
func StrategyGuard(engine policies.Engine) rest.Layer {
	return guard{name: "strategy-guard", validate: func(obj *document.Document) (field.ErrorList, error) {
		return validateStrategy(engine, obj)
	}}
}

// Name implements rest.Layer.
func (g guard) Name() string { return g.name }

// Implements implements rest.Layer.
func (guard) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate)
}

// Validate implements rest.Hooks.
func (g guard) Validate(_ context.Context, obj *document.Document) (field.ErrorList, error) {
	return g.validate(obj)
}

// ValidateUpdate implements rest.Hooks.
func (g guard) ValidateUpdate(_ context.Context, obj, _ *document.Document) (field.ErrorList, error) {
	return g.validate(obj)
}

func validateModule(obj *document.Document) (field.ErrorList, error) {
	m, err := decodeModule(obj)
	if err != nil {
		return nil, err
	}
	var errs field.ErrorList
	source := field.NewPath("spec", "source")
	n := 0
	for _, set := range []bool{len(m.Spec.Source.Inline) > 0, m.Spec.Source.ConfigMapRef != nil, m.Spec.Source.File != ""} {
		if set {
			n++
		}
	}
	if n != 1 {
		errs = append(errs, field.Invalid(source, field.OmitValueType{}, "exactly one of inline, configMapRef and file is required"))
	}
	if ref := m.Spec.Source.ConfigMapRef; ref != nil {
		for name, v := range map[string]string{"namespace": ref.Namespace, "name": ref.Name, "key": ref.Key} {
			if v == "" {
				errs = append(errs, field.Required(source.Child("configMapRef", name), ""))
			}
		}
	}
	if d := m.Spec.Source.Digest; d != "" {
		if _, err := artefactName(d); err != nil {
			errs = append(errs, field.Invalid(source.Child("digest"), d, "must be sha256: and 64 hexadecimal digits in lower case"))
		}
	}
	limits := field.NewPath("spec", "limits")
	for name, v := range map[string]int64{"memoryBytes": m.Spec.Limits.MemoryBytes, "fuel": m.Spec.Limits.Fuel, "timeoutMilliseconds": m.Spec.Limits.TimeoutMilliseconds} {
		if v < 0 {
			errs = append(errs, field.Invalid(limits.Child(name), v, "must not be negative"))
		}
	}
	if len(errs) == 0 {
		if err := (host.Limits{MemoryBytes: int(m.Spec.Limits.MemoryBytes), Fuel: uint64(m.Spec.Limits.Fuel)}).Validate(); err != nil {
			errs = append(errs, field.Invalid(limits, field.OmitValueType{}, err.Error()))
		}
	}
	for i, test := range m.Spec.Tests {
		path := field.NewPath("spec", "tests").Index(i)
		if test.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
		}
		if _, ok := abi.ParseOp(test.Hook); !ok {
			errs = append(errs, field.Invalid(path.Child("hook"), test.Hook, "is not a hook of the guest contract"))
		}
	}
	return errs, nil
}

func validateStrategy(engine policies.Engine, obj *document.Document) (field.ErrorList, error) {
	s, err := decodeStrategy(obj)
	if err != nil {
		return nil, err
	}
	target := strategyTarget(s)
	var errs field.ErrorList
	if s.Name != target.String() {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), s.Name,
			fmt.Sprintf("must be spec.resource and, behind a dot, spec.group: %q", target.String())))
	}
	switch target.Group {
	case moduleResource.Group, crdResource.Group:
		errs = append(errs, field.Forbidden(field.NewPath("spec", "group"), "configuration kinds are guarded natively, so that no strategy can lock out its own repair"))
	}
	_, err = extension.CompileStrategy(engine, &s.Spec, func(name string, _ json.RawMessage) (extension.Guest, error) {
		return absentGuest(name), nil // whether the Module is ready is said in status
	})
	if err == nil {
		return errs, nil
	}
	issues, ok := err.(policies.Issues) //nolint:errorlint // the contract of CompileStrategy
	if !ok {
		return nil, err
	}
	for _, issue := range issues {
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: issue.Path, BadValue: issue.Text, Detail: issue.String()})
	}
	return errs, nil
}

// absentGuest stands for a module while a Strategy is only checked. It implements nothing.
type absentGuest string

var _ extension.Guest = absentGuest("")

// Name implements extension.Guest.
func (g absentGuest) Name() string { return string(g) }

// Handles implements extension.Guest.
func (absentGuest) Handles(abi.Op) bool { return false }

// Call implements extension.Guest.
func (g absentGuest) Call(context.Context, *host.Call) (*host.Result, error) {
	return nil, fmt.Errorf("module[%s] is not loaded", string(g))
}
