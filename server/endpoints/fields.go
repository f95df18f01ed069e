package endpoints

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

// withoutFields runs write and, where what it stores is too large, once more with
// drop set: managedFields can be given up, the object cannot.
func withoutFields(write func(drop bool) error) error {
	err := write(false)
	if apierrors.IsRequestEntityTooLargeError(err) {
		err = write(true)
	}
	return err
}

// dropFields removes managedFields.
func dropFields(obj *document.Document) (*document.Document, error) {
	return obj.Edit().Delete("metadata", "managedFields").Document()
}
