package recording

import (
	"context"
	"sync"

	"weir.dev/weir/server/admission"
)

type marksKey struct{}

// marks say which objects of one request have a record of the phase Mutate.
type marks struct {
	mu    sync.Mutex
	names map[string]bool // guarded by mu
}

// WithRequest returns the context of a request, in which its phases know of each other. Without it, a record does not say
// that there is another one.
func WithRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, marksKey{}, &marks{})
}

// set says whether the last try to write an object is recorded in the phase Mutate.
func (m *marks) set(a *admission.Attributes, recorded bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if name := markOf(a); recorded {
		if m.names == nil {
			m.names = map[string]bool{}
		}
		m.names[name] = true
	} else {
		delete(m.names, name)
	}
}

func (m *marks) has(a *admission.Attributes) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[markOf(a)]
}

// markOf tells the objects of one request apart: several are deleted with a collection. What is written is one, whose name
// may not be known in the phase Mutate.
func markOf(a *admission.Attributes) string {
	if a.Operation == admission.Delete {
		return a.Namespace + "/" + admission.NameOf(a)
	}
	return ""
}

func marksFrom(ctx context.Context) *marks {
	m, _ := ctx.Value(marksKey{}).(*marks)
	return m
}
