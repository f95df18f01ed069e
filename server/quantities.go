package server

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
)

// quantityLayer brings the quantities of a built-in kind to the form in which clients
// compare them, before anything else looks at the object.
type quantityLayer struct {
	rest.NoHooks
	kind schema.GroupKind
	load func() (*resources.Canonicalizer, error)
}

var _ rest.Layer = quantityLayer{}

func newQuantityLayer(set *resources.Set, d *resources.Definition, v *resources.Version) rest.Layer {
	return quantityLayer{kind: schema.GroupKind{Group: d.Group, Kind: d.Kind},
		load: sync.OnceValues(func() (*resources.Canonicalizer, error) { return set.Canonicalizer(v.SchemaName) })}
}

// Name implements rest.Layer.
func (quantityLayer) Name() string { return "quantities" }

// Implements implements rest.Layer.
func (quantityLayer) Implements() rest.HookSet { return rest.HookSet(rest.HookDefault) }

// Default implements rest.Hooks.
func (l quantityLayer) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	c, err := l.load()
	if err != nil || c.Holds(obj.Root()) {
		return obj, err
	}
	m, err := obj.Map()
	if err != nil {
		return nil, err
	}
	if errs := c.Apply(m); len(errs) > 0 {
		return nil, apierrors.NewInvalid(l.kind, obj.Get("metadata", "name").String(), errs)
	}
	return document.FromValue(m)
}
