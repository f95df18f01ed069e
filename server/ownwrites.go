package server

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// ownWrites reads what this server has acknowledged, and what others have as soon as the cache learns it: as new as
// what admission sees in an informer, and no question for the storage with each request.
type ownWrites struct{ rest.Getter }

// Get implements rest.Getter.
func (o ownWrites) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	return o.Getter.Get(storage.WithOwnWrites(ctx), name, opts)
}
