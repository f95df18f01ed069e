package endpoints

import (
	"context"

	"weir.dev/weir/abi/document"
)

// own notes in managedFields what manager changed from live, nil for a create.
// Both objects are of the version served.
func (sc *scope) own(ctx context.Context, live, obj *document.Document, manager string) (*document.Document, error) {
	if sc.fields == nil {
		return obj, nil
	}
	return sc.fields.Update(ctx, live, obj, manager)
}
