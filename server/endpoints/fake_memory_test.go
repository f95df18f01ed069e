package endpoints

import (
	"context"
	"errors"
	"io"
	"sort"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// memory is a storage of documents with all verbs, as little of one as the tests need.
type memory struct {
	gr     schema.GroupResource
	scoped bool

	mu      sync.Mutex
	rv      int
	objects map[string]*document.Document
	events  []rest.Event
	changed chan struct{}
	// failWatch is what Watch returns.
	failWatch error
	// conflicts makes so many updates see a stale object first.
	conflicts int
	// limit of an object in bytes, 0 without one.
	limit int
	// updates counts calls of UpdatedObject.
	updates int
}

func newMemory(gr schema.GroupResource, namespaced bool) *memory {
	return &memory{gr: gr, scoped: namespaced, objects: map[string]*document.Document{}, changed: make(chan struct{}), rv: 100}
}

func (m *memory) key(ctx context.Context, name string) string {
	ns, _ := request.NamespaceFrom(ctx)
	return ns + "/" + name
}

func (m *memory) put(key, event string, obj *document.Document) *document.Document {
	m.rv++
	rv := strconv.Itoa(m.rv)
	obj, err := obj.Edit().Set(rv, "metadata", "resourceVersion").Document()
	if err != nil {
		panic(err)
	}
	if event == "DELETED" {
		delete(m.objects, key)
	} else {
		m.objects[key] = obj
	}
	m.events = append(m.events, rest.Event{Type: event, Object: obj, ResourceVersion: rv})
	close(m.changed)
	m.changed = make(chan struct{})
	return obj
}

func (m *memory) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	if obj.Get("spec", "replicas").Exists() {
		return obj, nil
	}
	return obj.Edit().Set(int64(1), "spec", "replicas").Document()
}

func (m *memory) Get(ctx context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if obj := m.objects[m.key(ctx, name)]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(m.gr, name)
}

func (m *memory) List(ctx context.Context, opts *internalversion.ListOptions) (*rest.List, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	prefix := ""
	if ns, _ := request.NamespaceFrom(ctx); ns != "" {
		prefix = ns + "/"
	}
	list := &rest.List{ResourceVersion: strconv.Itoa(m.rv)}
	var keys []string
	for key := range m.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for i, key := range keys {
		if opts.Limit > 0 && int64(i) == opts.Limit {
			remaining := int64(len(keys) - i)
			list.Continue, list.RemainingItemCount = "next", &remaining
			break
		}
		list.Items = append(list.Items, m.objects[key])
	}
	return list, nil
}

func (m *memory) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	if err := validate(ctx, obj); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := obj.Get("metadata", "name").String()
	if m.objects[m.key(ctx, name)] != nil {
		return nil, apierrors.NewAlreadyExists(m.gr, name)
	}
	obj, err := obj.Edit().Set("uid-"+name, "metadata", "uid").Set("2026-01-02T03:04:05Z", "metadata", "creationTimestamp").Document()
	if err != nil {
		return nil, err
	}
	if len(opts.DryRun) > 0 {
		return obj, nil
	}
	if m.limit > 0 && len(obj.Bytes()) > m.limit {
		return nil, apierrors.NewRequestEntityTooLargeError("object")
	}
	return m.put(m.key(ctx, name), "ADDED", obj), nil
}

func (m *memory) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, allowCreate bool, _ *metav1.UpdateOptions) (*document.Document, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(ctx, name)
	live := m.objects[key]
	if live == nil && !allowCreate {
		return nil, false, apierrors.NewNotFound(m.gr, name)
	}
	if p := info.Preconditions(); p != nil && p.UID != nil && live != nil && string(*p.UID) != live.Get("metadata", "uid").String() {
		return nil, false, apierrors.NewConflict(m.gr, name, errors.New("uid"))
	}
	for ; m.conflicts > 0; m.conflicts-- {
		m.updates++
		if _, err := info.UpdatedObject(ctx, live); err != nil {
			return nil, false, err
		}
	}
	m.updates++
	obj, err := info.UpdatedObject(ctx, live)
	if err != nil {
		return nil, false, err
	}
	if live == nil {
		if err := create(ctx, obj); err != nil {
			return nil, false, err
		}
		return m.put(key, "ADDED", obj), true, nil
	}
	if rv := obj.Get("metadata", "resourceVersion").String(); rv != "" && rv != live.Get("metadata", "resourceVersion").String() {
		return nil, false, apierrors.NewConflict(m.gr, name, errors.New("stale"))
	}
	if err := update(ctx, obj, live); err != nil {
		return nil, false, err
	}
	if m.limit > 0 && len(obj.Bytes()) > m.limit {
		return nil, false, apierrors.NewRequestEntityTooLargeError("object")
	}
	return m.put(key, "MODIFIED", obj), false, nil
}

func (m *memory) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, _ *metav1.DeleteOptions) (*document.Document, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := m.key(ctx, name)
	obj := m.objects[key]
	if obj == nil {
		return nil, false, apierrors.NewNotFound(m.gr, name)
	}
	if err := validate(ctx, obj); err != nil {
		return nil, false, err
	}
	if obj.Get("metadata", "finalizers").Len() > 0 {
		return m.put(key, "MODIFIED", obj), false, nil
	}
	return m.put(key, "DELETED", obj), true, nil
}

func (m *memory) DeleteCollection(ctx context.Context, _ rest.ValidateObjectFunc, _ *metav1.DeleteOptions, opts *internalversion.ListOptions) (*rest.List, error) {
	list, err := m.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, obj := range list.Items {
		m.put(obj.Get("metadata", "namespace").String()+"/"+obj.Get("metadata", "name").String(), "DELETED", obj)
	}
	return list, nil
}

func (m *memory) Watch(_ context.Context, opts *internalversion.ListOptions) (rest.Watch, error) {
	if m.failWatch != nil {
		return nil, m.failWatch
	}
	return &memoryWatch{memory: m, initial: opts.SendInitialEvents != nil && *opts.SendInitialEvents && opts.AllowWatchBookmarks}, nil
}

type memoryWatch struct {
	memory  *memory
	seen    int
	initial bool
}

func (w *memoryWatch) Stop() {}

func (w *memoryWatch) Next(ctx context.Context) ([]rest.Event, error) {
	for {
		w.memory.mu.Lock()
		events := append([]rest.Event(nil), w.memory.events[w.seen:]...)
		w.seen = len(w.memory.events)
		changed, rv := w.memory.changed, w.memory.rv
		w.memory.mu.Unlock()
		if w.initial {
			w.initial = false
			events = append(events, rest.Event{Type: "BOOKMARK", ResourceVersion: strconv.Itoa(rv), InitialEventsEnd: true})
		}
		for _, e := range events {
			if e.Object != nil && e.Object.Get("metadata", "name").String() == "last" {
				return events, io.EOF
			}
			if e.Object != nil && e.Object.Get("metadata", "name").String() == "broken" {
				return nil, apierrors.NewResourceExpired("too old")
			}
		}
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}
