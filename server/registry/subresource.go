package registry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// Subresource reads and updates the objects of a Store by another strategy.
type Subresource struct {
	store    *Store
	strategy rest.Strategy
}

var (
	_ rest.Getter  = (*Subresource)(nil)
	_ rest.Updater = (*Subresource)(nil)
)

// Subresource returns the subresource whose updates are strategy's, such as status.
func (s *Store) Subresource(strategy rest.Strategy) *Subresource {
	return &Subresource{store: s, strategy: strategy}
}

// Default fills in what a client left out.
func (r *Subresource) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return r.strategy.Default(ctx, obj)
}

// Get implements rest.Getter: it is the whole object.
func (r *Subresource) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	return r.store.Get(ctx, name, opts)
}

// Update implements rest.Updater. A subresource never creates its object.
func (r *Subresource) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, _ bool, opts *metav1.UpdateOptions,
) (*document.Document, bool, error) {
	u := &update{
		store: r.store, strategy: r.strategy, name: name, info: info,
		validateUpdate: validateUpdate,
		dryRun:         opts != nil && dryRun(opts.DryRun),
	}
	return u.run(ctx)
}
