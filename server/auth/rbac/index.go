package rbac

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// The followed resources.
const (
	Roles               = "roles"
	RoleBindings        = "rolebindings"
	ClusterRoles        = "clusterroles"
	ClusterRoleBindings = "clusterrolebindings"
)

// Resources returns the names of the resources that an Index follows.
func Resources() []string {
	return []string{ClusterRoles, ClusterRoleBindings, Roles, RoleBindings}
}

// Index is all roles and bindings, by who has them. Reading it takes no lock.
//
// # Notes
//
// An object that cannot be read is left out, with a word in the log: it grants nothing. So is one that the storage cannot
// read.
type Index struct {
	logger *slog.Logger
	state  atomic.Pointer[state]

	mu        sync.Mutex // of writers
	followers map[string]*rest.Follower
	synced    chan struct{} // closed when all followers have had their first state
}

// NewIndex returns an empty Index. Follow and Run fill it.
func NewIndex(logger *slog.Logger) *Index {
	x := &Index{logger: logger, followers: map[string]*rest.Follower{}, synced: make(chan struct{})}
	x.state.Store(&state{})
	return x
}

// Follow says where the objects come from; source returns what serves watches on one of Resources. It must
// be called before Run, and once.
func (x *Index) Follow(source func(resource string) rest.Watcher) error {
	for _, resource := range Resources() {
		watcher := source(resource)
		if watcher == nil {
			return fmt.Errorf("rbac: resource %s is not served", resource)
		}
		x.followers[resource] = rest.NewFollower(resource, watcher, x.handler(resource), x.logger)
		x.followers[resource].WithoutUnreadable()
	}
	return nil
}

// Run follows until ctx is done.
func (x *Index) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range x.followers {
		running.Go(func() { f.Run(ctx) })
	}
	running.Go(func() {
		for _, f := range x.followers {
			if f.WaitSynced(ctx) != nil {
				return
			}
		}
		close(x.synced)
	})
	running.Wait()
}

// WaitSynced waits until the index knows all that was stored when Run began.
func (x *Index) WaitSynced(ctx context.Context) error {
	select {
	case <-x.synced:
		return nil
	default:
	}
	select {
	case <-x.synced:
		return nil
	case <-ctx.Done():
		return errors.New("roles and bindings have not been loaded yet")
	}
}

// WaitFor waits until a write to one of Resources is in force.
func (x *Index) WaitFor(ctx context.Context, resource, resourceVersion string) error {
	f := x.followers[resource]
	if f == nil {
		return nil
	}
	return f.WaitFor(ctx, resourceVersion)
}

// Has reports whether the object is known.
func (x *Index) Has(resource, namespace, name string) bool {
	s := x.state.Load()
	var ok bool
	switch resource {
	case Roles:
		_, ok = s.roles.get(objectKey{namespace, name})
	case ClusterRoles:
		_, ok = s.clusterRoles.get(name)
	case RoleBindings, ClusterRoleBindings:
		_, ok = s.bindings.get(objectKey{namespace, name})
	}
	return ok
}

// update publishes what change makes of the state.
func (x *Index) update(change func(s *state) *state) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state.Store(change(x.state.Load()))
}

func (x *Index) handler(resource string) rest.FollowHandler {
	switch resource {
	case Roles:
		return follow[role]{x, resource, readRole,
			func(s *state, all map[objectKey]*role) *state { return s.withRoles(all) }, (*state).withRole}
	case ClusterRoles:
		return follow[role]{x, resource, readRole,
			func(s *state, all map[objectKey]*role) *state {
				byName := make(map[string]*role, len(all))
				for key, r := range all {
					byName[key.name] = r
				}
				return s.withClusterRoles(byName)
			},
			func(s *state, key objectKey, r *role) *state { return s.withClusterRole(key.name, r) }}
	default:
		return follow[binding]{x, resource, readBinding,
			func(s *state, all map[objectKey]*binding) *state {
				list := make([]*binding, 0, len(all))
				for _, b := range all {
					list = append(list, b)
				}
				return s.withBindings(list, resource == ClusterRoleBindings)
			}, (*state).withBinding}
	}
}

// follow brings the changes of one resource to the index.
type follow[T any] struct {
	index    *Index
	resource string
	read     func(*document.Document) (*T, error)
	replace  func(*state, map[objectKey]*T) *state
	change   func(*state, objectKey, *T) *state // nil: the object is gone
}

// Replace implements rest.FollowHandler.
func (f follow[T]) Replace(objects []*document.Document) {
	all := make(map[objectKey]*T, len(objects))
	for _, obj := range objects {
		if v := f.decode(obj); v != nil {
			all[keyOf(obj)] = v
		}
	}
	f.index.update(func(s *state) *state { return f.replace(s, all) })
}

// Change implements rest.FollowHandler.
func (f follow[T]) Change(e rest.Event) {
	if e.Object == nil {
		return
	}
	var v *T
	if e.Type != "DELETED" {
		v = f.decode(e.Object)
	}
	f.index.update(func(s *state) *state { return f.change(s, keyOf(e.Object), v) })
}

func (f follow[T]) decode(obj *document.Document) *T {
	v, err := f.read(obj)
	if err != nil {
		key := keyOf(obj)
		f.index.logger.Error("stored object cannot be read; it grants nothing", "resource", f.resource+"."+rbacv1.GroupName,
			"namespace", key.namespace, "name", key.name, "error", err)
		return nil
	}
	return v
}
