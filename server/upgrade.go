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
	kinds, err := b.kinds(d)
	if err != nil {
		return nil, nil, err
	}
	kinds[v.Name] = fields
	if storage := kinds[d.StorageVersion]; v.Name != d.StorageVersion && storage != nil {
		downgrade = func(obj *document.Document) (*document.Document, error) {
			obj, _, err := storage.Prune(obj)
			return obj, err
		}
	}
	stored := renamer{group: d.Group}
	decode := asWritten(kinds)
	return func(obj *document.Document) (*document.Document, error) {
		written := rest.KindOf(obj).Version
		obj, err := decode(obj)
		if err != nil {
			return nil, err
		}
		if written != v.Name {
			if obj, _, err = fields.Prune(obj); err != nil {
				return nil, err
			}
		}
		return stored.Convert(context.Background(), obj, d.StorageVersion) // nothing here waits
	}, downgrade, nil
}

// kinds returns what the objects of each version are.
func (b *builder) kinds(d *resources.Definition) (map[string]*weirschema.Kind, error) {
	kinds := make(map[string]*weirschema.Kind, len(d.Versions))
	for i := range d.Versions {
		v := &d.Versions[i]
		var err error
		if kinds[v.Name], err = b.schemaOf(d, v, true); err != nil {
			return nil, err
		}
	}
	return kinds, nil
}

// asWritten prunes and defaults rows by the version that each was written in.
func asWritten(kinds map[string]*weirschema.Kind) upgradeFunc {
	return func(obj *document.Document) (*document.Document, error) {
		kind := kinds[rest.KindOf(obj).Version]
		if kind == nil {
			return obj, nil
		}
		obj, _, err := kind.Prune(obj)
		if err != nil {
			return nil, err
		}
		return kind.Default(context.Background(), obj)
	}
}
