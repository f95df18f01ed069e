package endpoints

import (
	"context"

	"weir.dev/weir/abi/document"
)

// defaulter fills in what a client left out. A Schema that is one defaults objects
// of its own version; a Storage that is one defaults objects of the stored version.
type defaulter interface {
	Default(ctx context.Context, obj *document.Document) (*document.Document, error)
}

// toStored brings an object of the version served to the stored one.
func (sc *scope) toStored(ctx context.Context, doc *document.Document) (*document.Document, error) {
	if sc.converter == nil || doc == nil {
		return doc, nil
	}
	return sc.converter.Convert(ctx, doc, sc.resource.StorageVersion)
}

// fromStored brings an object of the stored version to the one served.
func (sc *scope) fromStored(ctx context.Context, doc *document.Document) (*document.Document, error) {
	if sc.converter == nil || doc == nil {
		return doc, nil
	}
	return sc.converter.Convert(ctx, doc, sc.version.Name)
}

// defaults fills in an object of the version served. It runs after decoding,
// after a patch and after every mutation.
func (sc *scope) defaults(ctx context.Context, doc *document.Document) (*document.Document, error) {
	var err error
	if d, ok := sc.schema.(defaulter); ok {
		if doc, err = d.Default(ctx, doc); err != nil {
			return nil, err
		}
	}
	d, ok := sc.storage.(defaulter)
	if !ok {
		return doc, nil
	}
	if doc, err = sc.toStored(ctx, doc); err != nil {
		return nil, err
	}
	if doc, err = d.Default(ctx, doc); err != nil {
		return nil, err
	}
	return sc.fromStored(ctx, doc)
}
