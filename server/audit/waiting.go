package audit

import (
	"errors"
	"maps"
	"sync"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
)

// maxWaitingBytes bounds the objects of the events that wait in ModeBatch, whose number alone upstream bounds: ten
// thousand lists would be all the memory there is.
const maxWaitingBytes = 64 << 20

// waiting counts the events that a buffered backend holds.
type waiting struct {
	mostEvents, mostBytes int

	mu            sync.Mutex
	events, bytes int // guarded by mu
}

// newBuffered returns a buffered backend whose events are bounded in number, those that are being written among them, and
// in bytes: of an event beyond these the objects are left out.
func newBuffered(backend audit.Backend, config buffered.BatchConfig) audit.Backend {
	w := &waiting{mostEvents: config.BufferSize, mostBytes: maxWaitingBytes}
	return entering{buffered.NewBackend(leaving{backend, w}, config), w}
}

// entering counts events that come.
type entering struct {
	audit.Backend
	waiting *waiting
}

// ProcessEvents implements audit.Sink.
func (b entering) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		admitted, ok := b.waiting.enter(e)
		if !ok {
			audit.HandlePluginError(buffered.PluginName, errors.New("audit buffer queue blocked"), e)
			continue
		}
		b.Backend.ProcessEvents(admitted)
	}
	return true
}

// leaving counts events that are written.
type leaving struct {
	audit.Backend
	waiting *waiting
}

// ProcessEvents implements audit.Sink.
func (b leaving) ProcessEvents(events ...*auditinternal.Event) bool {
	defer b.waiting.leave(events)
	return b.Backend.ProcessEvents(events...)
}

// enter returns what of an event is to wait; false: it has no place.
func (w *waiting) enter(e *auditinternal.Event) (*auditinternal.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events >= w.mostEvents {
		return nil, false
	}
	w.events++
	if size := objectBytes(e); size > 0 && w.bytes+size > w.mostBytes {
		e = withoutObjects(e)
	} else {
		w.bytes += size
	}
	return e, true
}

func (w *waiting) leave(events []*auditinternal.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events -= len(events)
	for _, e := range events {
		w.bytes -= objectBytes(e)
	}
}

func objectBytes(e *auditinternal.Event) int {
	n := 0
	if e.RequestObject != nil {
		n += len(e.RequestObject.Raw)
	}
	if e.ResponseObject != nil {
		n += len(e.ResponseObject.Raw)
	}
	return n
}

// withoutObjects is an event that is annotated as one that was truncated.
func withoutObjects(e *auditinternal.Event) *auditinternal.Event {
	c := *e
	c.RequestObject, c.ResponseObject = nil, nil
	if c.Annotations = maps.Clone(e.Annotations); c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[truncatedAnnotation] = "true"
	return &c
}
