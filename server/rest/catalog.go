package rest

import "context"

// Catalog is the set of resources in force. One is pinned to each request, which
// uses no other until it ends.
type Catalog interface {
	// Resource returns the resource, or nil.
	Resource(group, name string) *Resource
	// Resources returns all, sorted by group and name.
	Resources() []*Resource
	// Generation grows whenever the set changes; caches of discovery and OpenAPI key on it.
	Generation() uint64
}

type catalogKey struct{}

// WithCatalog returns a context in which c is in force.
func WithCatalog(ctx context.Context, c Catalog) context.Context {
	return context.WithValue(ctx, catalogKey{}, c)
}

// CatalogFrom returns the catalog in force, or nil.
func CatalogFrom(ctx context.Context) Catalog {
	c, _ := ctx.Value(catalogKey{}).(Catalog)
	return c
}

type releaseKey struct{}

// WithRelease returns a context through which a watch can let go of its catalog.
func WithRelease(ctx context.Context, release func()) context.Context {
	return context.WithValue(ctx, releaseKey{}, release)
}

// Release lets go of the catalog of ctx before the request ends. Only a watch calls it, once
// it needs nothing of the catalog any more, so that it does not keep a replaced module for hours.
func Release(ctx context.Context) {
	if release, ok := ctx.Value(releaseKey{}).(func()); ok {
		release()
	}
}
