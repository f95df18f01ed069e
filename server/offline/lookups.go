package offline

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/server/rest"
)

// lookups answer modules with the objects of a set, as a server does with its own: by the resources that there are.
type lookups struct {
	resources map[schema.GroupResource]*rest.Resource
	objects   *lookup.Objects
}

var _ lookup.Lookuper = (*lookups)(nil)

// lookups returns what modules find: all objects of the set.
func (s *Set) lookups() (*lookups, error) {
	names := map[schema.GroupKind]string{}
	var all []*document.Document
	for gr, list := range s.objects {
		r := s.resources[gr]
		names[schema.GroupKind{Group: r.Group, Kind: r.Kind}] = r.Name
		all = append(all, list...)
	}
	objects, err := lookup.NewObjectsOf(func(group, kind string) string { return names[schema.GroupKind{Group: group, Kind: kind}] }, all...)
	if err != nil {
		return nil, err
	}
	return &lookups{resources: s.resources, objects: objects}, nil
}

// Lookup implements lookup.Lookuper.
func (l *lookups) Lookup(ctx context.Context, q *lookup.Query) (*lookup.Found, error) {
	r := l.resources[schema.GroupResource{Group: q.Group, Resource: q.Resource}]
	switch {
	case r == nil || len(r.Versions) == 0:
		return nil, abi.EINVAL
	case r.Namespaced && q.Name != "" && q.Namespace == "", !r.Namespaced && q.Namespace != "":
		return nil, abi.EINVAL
	}
	if m, ok := r.Versions[0].Storage.(memory); !ok || m.strategy == nil {
		return nil, abi.EINVAL // nothing of it is stored, as of reviews
	}
	return l.objects.Lookup(ctx, q)
}
