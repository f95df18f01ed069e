package extension

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

// SnapshotConfig is what a Snapshot is made of.
type SnapshotConfig struct {
	// Resources in force, in any order.
	Resources []*rest.Resource
	// Generation must grow from one published snapshot to the next that differs.
	Generation uint64
	// Modules that the resources call. The snapshot acquires each until it is drained.
	Modules []*SharedModule
	// Policies of admission, of this snapshot alone; nil: there are none.
	Policies *policy.Index
}

// Snapshot is the immutable set of resources in force and of the policies in force, and implements policy.Catalog. It is
// counted: it lives while a Holder has it in force or a request uses it, and the modules
// it needs live as long.
type Snapshot struct {
	byName     map[schema.GroupResource]*rest.Resource
	sorted     []*rest.Resource
	generation uint64
	modules    []*SharedModule
	policies   *policy.Index

	// refs is 0 once the snapshot is drained, and then stays so.
	refs    atomic.Int64
	drained chan struct{}
}

var _ policy.Catalog = (*Snapshot)(nil)

// NewSnapshot returns a Snapshot with one reference, the caller's, which Holder.Publish
// takes over.
func NewSnapshot(config SnapshotConfig) (*Snapshot, error) {
	s := &Snapshot{
		byName:     make(map[schema.GroupResource]*rest.Resource, len(config.Resources)),
		sorted:     slices.Clone(config.Resources),
		generation: config.Generation,
		policies:   config.Policies,
		drained:    make(chan struct{}),
	}
	for _, r := range config.Resources {
		if _, ok := s.byName[r.GroupResource()]; ok {
			return nil, fmt.Errorf("snapshot: resource %s twice", r.GroupResource())
		}
		s.byName[r.GroupResource()] = r
	}
	slices.SortFunc(s.sorted, func(a, b *rest.Resource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	for i, m := range config.Modules {
		if !m.Acquire() {
			for _, m := range config.Modules[:i] {
				m.Release()
			}
			return nil, fmt.Errorf("snapshot: module %q is closed", m.Name())
		}
	}
	s.modules = slices.Clone(config.Modules)
	s.refs.Store(1)
	return s, nil
}

// Resource implements rest.Catalog.
func (s *Snapshot) Resource(group, name string) *rest.Resource {
	return s.byName[schema.GroupResource{Group: group, Resource: name}]
}

// Resources implements rest.Catalog. The caller must not change the slice.
func (s *Snapshot) Resources() []*rest.Resource { return s.sorted }

// Generation implements rest.Catalog.
func (s *Snapshot) Generation() uint64 { return s.generation }

// Policies implements policy.Catalog.
func (s *Snapshot) Policies() *policy.Index { return s.policies }

// Drained is closed when nobody uses the snapshot any more and its modules are released.
func (s *Snapshot) Drained() <-chan struct{} { return s.drained }

// acquire takes a reference, unless the snapshot is drained.
func (s *Snapshot) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back: once for each Acquire of a Holder, and once for
// NewSnapshot where the snapshot is not published after all.
func (s *Snapshot) Release() {
	switch n := s.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("extension: snapshot released more often than acquired")
	}
	for _, m := range s.modules {
		m.Release()
	}
	close(s.drained)
}

// Holder has the snapshot in force. Its methods may be used concurrently.
type Holder struct {
	current atomic.Pointer[Snapshot]
}

// NewHolder returns a Holder and takes over the caller's reference to first.
func NewHolder(first *Snapshot) *Holder {
	h := &Holder{}
	h.current.Store(first)
	return h
}

// Acquire returns the snapshot in force. It stays usable, whatever is published
// meanwhile, until release is called, which must be exactly once.
func (h *Holder) Acquire() (s *Snapshot, release func()) {
	for {
		s := h.current.Load()
		if s.acquire() {
			return s, s.Release
		}
		// s was replaced and drained between the two lines above: there is another.
	}
}

// Publish puts next in force and takes over the caller's reference to it. Requests that
// began before keep what they have. It returns the snapshot that was replaced, for its
// Drained.
func (h *Holder) Publish(next *Snapshot) (replaced *Snapshot) {
	replaced = h.current.Swap(next)
	replaced.Release()
	return replaced
}

// Generation of the snapshot in force.
func (h *Holder) Generation() uint64 { return h.current.Load().Generation() }

// SharedModule counts the users of a loaded module, which is closed with the last.
type SharedModule struct {
	Guest
	close  func(ctx context.Context) error
	closed func(error)
	refs   atomic.Int64
}

// ClosableGuest is a Guest that must be closed. *host.Module implements it.
type ClosableGuest interface {
	Guest
	// Close frees the module. It waits for calls that are under way.
	Close(ctx context.Context) error
}

// NewSharedModule takes over a loaded module, with one reference, the caller's. closed,
// if not nil, is told when the module was closed, and of the error.
func NewSharedModule(guest ClosableGuest, closed func(error)) *SharedModule {
	m := &SharedModule{Guest: guest, close: guest.Close, closed: closed}
	m.refs.Store(1)
	return m
}

// Acquire takes a reference. It is false when the module is closed already.
func (m *SharedModule) Acquire() bool {
	for {
		n := m.refs.Load()
		if n == 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back; the last closes the module. No call is under way
// then, so that it does not wait.
func (m *SharedModule) Release() {
	switch n := m.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("extension: module released more often than acquired")
	}
	err := m.close(context.Background())
	if m.closed != nil {
		m.closed(err)
	}
}
