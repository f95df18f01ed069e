package schema

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"

	"weir.dev/weir/abi/document"
)

// Default fills in the defaults of the schema.
func (k *Kind) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	s, err := k.schema()
	if err != nil {
		return nil, err
	}
	if s == nil || k.shape.isDefaulted(obj.Root()) {
		return obj, nil
	}
	m, err := obj.Map()
	if err != nil {
		return nil, err
	}
	defaulting.Default(m, s)
	return document.FromValue(Respell(m, obj.Root()))
}
