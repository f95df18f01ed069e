package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
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
	errs := validateSource(&m.Spec.Source, field.NewPath("spec", "source"))
	errs = append(errs, validateVerify(&m.Spec, field.NewPath("spec", "verify"))...)
	errs = append(errs, validateLimits(&m.Spec.Limits, field.NewPath("spec", "limits"))...)
	errs = append(errs, validateCapabilities(m.Spec.Capabilities, field.NewPath("spec", "capabilities"))...)
	names := map[string]bool{}
	for i := range m.Spec.Tests {
		test, path := &m.Spec.Tests[i], field.NewPath("spec", "tests").Index(i)
		switch {
		case test.Name == "":
			errs = append(errs, field.Required(path.Child("name"), ""))
		case names[test.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), test.Name))
		}
		names[test.Name] = true
		if op, ok := abi.ParseOp(test.Hook); !ok || op == abi.OpConfigure {
			errs = append(errs, field.NotSupported(path.Child("hook"), test.Hook, testableHooks()))
		}
		if _, err := testObjects(test); err != nil {
			errs = append(errs, field.Invalid(path.Child("objects"), field.OmitValueType{}, err.Error()))
		}
	}
	return errs, nil
}

// testableHooks are the hooks that a test may call: configure is called with the settings of every test.
func testableHooks() []string {
	var names []string
	for _, op := range abi.Ops() {
		if op != abi.OpConfigure {
			names = append(names, op.String())
		}
	}
	slices.Sort(names)
	return names
}

// maxTimeoutMilliseconds bounds spec.limits.timeoutMilliseconds; no request takes longer.
const maxTimeoutMilliseconds = 60_000

func validateLimits(limits *v1alpha1.ModuleLimits, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, limit := range []struct {
		name  string
		value int64
	}{{"memoryBytes", limits.MemoryBytes}, {"fuel", limits.Fuel}, {"timeoutMilliseconds", limits.TimeoutMilliseconds}} {
		if limit.value < 0 {
			errs = append(errs, field.Invalid(path.Child(limit.name), limit.value, "must not be negative"))
		}
	}
	if limits.TimeoutMilliseconds > maxTimeoutMilliseconds {
		errs = append(errs, field.Invalid(path.Child("timeoutMilliseconds"), limits.TimeoutMilliseconds, fmt.Sprintf("must be at most %d", maxTimeoutMilliseconds)))
	}
	if len(errs) > 0 {
		return errs
	}
	l := hostLimits(*limits)
	if err := l.Validate(); err != nil {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return errs
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
	case moduleResource.Group, crdResource.Group, validatingPolicies.Group:
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
		errs = append(errs, fieldError(issue))
	}
	return errs, nil
}

// fieldError gives an issue in the server's form. The detail has the place and the caret, and not the path again.
func fieldError(issue policies.Issue) *field.Error {
	e := &field.Error{Type: field.ErrorTypeInvalid, Field: issue.Path, BadValue: issue.Text}
	if issue.Missing {
		e.Type = field.ErrorTypeRequired
	}
	if issue.Text == "" {
		e.BadValue = field.OmitValueType{}
	}
	issue.Path = ""
	e.Detail = strings.TrimLeft(issue.String(), ": ")
	return e
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
