package rest

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
)

// Hook names one of Hooks.
type Hook uint16

// The hooks, as bits of a HookSet.
const (
	HookDefault Hook = 1 << iota
	HookPrepareForCreate
	HookValidate
	HookWarningsOnCreate
	HookPrepareForUpdate
	HookValidateUpdate
	HookWarningsOnUpdate
	HookValidateDelete
	HookCanonicalize
)

// HookSet is a set of hooks.
type HookSet uint16

// Has reports whether h is in the set.
func (s HookSet) Has(h Hook) bool { return s&HookSet(h) != 0 }

// Layer is one part of a strategy: a schema, a set of CEL rules, a Wasm module.
// A hook that is not in its set is not called and costs nothing.
type Layer interface {
	Hooks
	// Name says in errors and metrics which layer it is, e.g. `schema`, `module[quota]`, `cel[replicas]`.
	Name() string
	// Implements returns the hooks of the layer.
	Implements() HookSet
}

// NoHooks implements every hook by doing nothing. A Layer embeds it.
type NoHooks struct{}

var _ Hooks = NoHooks{}

// Default implements Hooks.
func (NoHooks) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	return obj, nil
}

// PrepareForCreate implements Hooks.
func (NoHooks) PrepareForCreate(_ context.Context, obj *document.Document) (*document.Document, error) {
	return obj, nil
}

// Validate implements Hooks.
func (NoHooks) Validate(context.Context, *document.Document) (field.ErrorList, error) {
	return nil, nil
}

// WarningsOnCreate implements Hooks.
func (NoHooks) WarningsOnCreate(context.Context, *document.Document) ([]string, error) {
	return nil, nil
}

// PrepareForUpdate implements Hooks.
func (NoHooks) PrepareForUpdate(_ context.Context, obj, _ *document.Document) (*document.Document, error) {
	return obj, nil
}

// ValidateUpdate implements Hooks.
func (NoHooks) ValidateUpdate(context.Context, *document.Document, *document.Document) (field.ErrorList, error) {
	return nil, nil
}

// WarningsOnUpdate implements Hooks.
func (NoHooks) WarningsOnUpdate(context.Context, *document.Document, *document.Document) ([]string, error) {
	return nil, nil
}

// ValidateDelete implements Hooks.
func (NoHooks) ValidateDelete(context.Context, *document.Document) (field.ErrorList, error) {
	return nil, nil
}

// Canonicalize implements Hooks.
func (NoHooks) Canonicalize(_ context.Context, obj *document.Document) (*document.Document, error) {
	return obj, nil
}
