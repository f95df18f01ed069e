package server

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
	weirschema "weir.dev/weir/server/schema"
)

// upgradeFunc brings the rows of a custom resource to what a version shows of them.
type upgradeFunc func(*document.Document) (*document.Document, error)

// shown is the upgradeFunc of a version as it is now. A watch outlives the definition that it began with: what it shows of
// an object that was written by a later one must have the fields that this one has, or who updates the object by what
// it has seen removes them.
type shown struct{ now atomic.Pointer[upgradeFunc] }

// in returns it for a Store whose objects are of a version, which need not be the one that is stored now.
func (s *shown) in(group, version string) upgradeFunc {
	return func(obj *document.Document) (*document.Document, error) {
		obj, err := (*s.now.Load())(obj)
		if err != nil {
			return nil, err
		}
		return renamer{group: group}.Convert(context.Background(), obj, version)
	}
}

// shownIn returns that of a version, which is first where there is none yet.
func (b *builder) shownIn(gvr schema.GroupVersionResource, first upgradeFunc) *shown {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shown[gvr]
	if s == nil {
		if b.shown == nil {
			b.shown = map[schema.GroupVersionResource]*shown{}
		}
		s = &shown{}
		s.now.Store(&first)
		b.shown[gvr] = s
	}
	return s
}

// upgrade returns what brings the rows of a custom resource, which may have been stored in any version and under
// any schema, to what version v shows of them: as upstream decodes them, they are pruned and defaulted by the
// schema of the version they were written in, then pruned by that of v. The result has the storage version's
// name, as all that a Store gives.
//
// The second result leaves of an object of v what the storage version has; nil when that is v.
func (b *builder) upgrade(d *resources.Definition, v *resources.Version, fields *weirschema.Kind) (upgrade, downgrade upgradeFunc, err error) {
	kinds := make(map[string]*weirschema.Kind, len(d.Versions))
	for i := range d.Versions {
		other := &d.Versions[i]
		if other.Name == v.Name {
			kinds[other.Name] = fields
			continue
		}
		if kinds[other.Name], err = b.schemaOf(d, other, true); err != nil {
			return nil, nil, err
		}
	}
	if storage := kinds[d.StorageVersion]; v.Name != d.StorageVersion && storage != nil {
		downgrade = func(obj *document.Document) (*document.Document, error) {
			obj, _, err := storage.Prune(obj)
			return obj, err
		}
	}
	stored := renamer{group: d.Group}
	return func(obj *document.Document) (*document.Document, error) {
		ctx := context.Background() // nothing here waits
		written := rest.KindOf(obj).Version
		var err error
		if kind := kinds[written]; kind != nil {
			if obj, _, err = kind.Prune(obj); err != nil {
				return nil, err
			}
			if obj, err = kind.Default(ctx, obj); err != nil {
				return nil, err
			}
		}
		if written != v.Name {
			if obj, _, err = fields.Prune(obj); err != nil {
				return nil, err
			}
		}
		return stored.Convert(ctx, obj, d.StorageVersion)
	}, downgrade, nil
}
