package recording

import (
	"context"
	"sync"

	"weir.dev/weir/server/admission"
)

type marksKey struct{}

// mark is what the phase Mutate leaves to the phase Validate.
type mark struct {
	recorded bool // there is a record of it
	secret   bool // the object was changed by a secret param
}

// marks are those of the objects of one request.
type marks struct {
	mu    sync.Mutex
	names map[string]mark // guarded by mu
}

// WithRequest returns the context of a request, in which its phases know of each other. Without it, a record does not say
// that there is another one.
func WithRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, marksKey{}, &marks{})
}

// set notes the last try to write an object.
func (m *marks) set(a *admission.Attributes, left mark) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = map[string]mark{}
	}
	m.names[markOf(a)] = left
}

func (m *marks) get(a *admission.Attributes) mark {
	if m == nil {
		return mark{}
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
