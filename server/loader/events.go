package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

var eventResource = schema.GroupResource{Resource: "events"}

const (
	// eventComponent is who reports.
	eventComponent = "weir-loader"
	// maxEventText bounds a message, as upstream's recorder does.
	maxEventText = 1024
	// eventBurst and eventPause bound the events of one object: so many at once, then one in so much time.
	eventBurst = 10
	eventPause = 30 * time.Second
)

// events writes core/v1 Events about configuration objects, as `kubectl describe` shows them. All are
// cluster-scoped, so that their events are in namespace default. An event that is the same as an earlier one is
// counted there. An object that fails again and again gets no more than its budget.
type events struct {
	clock   clock.PassiveClock
	status  *statusWriter
	storage rest.Updater // of events, which are created on update

	mu      sync.Mutex
	budgets map[types.UID]*eventBudget // guarded by mu
}

type eventBudget struct {
	left float64
	at   time.Time
}

func newEvents(storage rest.Updater, status *statusWriter, clock clock.PassiveClock) *events {
	return &events{clock: clock, status: status, storage: storage, budgets: map[types.UID]*eventBudget{}}
}

// record has an event written soon.
func (r *events) record(about corev1.ObjectReference, kind, reason, message string) {
	if !r.allow(about.UID) {
		return
	}
	message = cut(message, maxEventText)
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%s\x00%s\x00%s\x00%s", about.UID, kind, reason, message) // a hash takes everything
	prefix := about.Name
	if len(prefix) > 200 {
		prefix = prefix[:200]
	}
	name, now := fmt.Sprintf("%s.%016x", prefix, hash.Sum64()), metav1.NewTime(r.clock.Now())
	r.status.enqueueDispensable("event/"+name, func(ctx context.Context) error {
		ctx = request.WithNamespace(ctx, metav1.NamespaceDefault)
		_, _, err := r.storage.Update(ctx, name, rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
			if old != nil {
				count, _ := old.Get("count").Int()
				return old.Edit().Set(count+1, "count").Set(now, "lastTimestamp").Document()
			}
			raw, err := json.Marshal(&corev1.Event{
				TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
				ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
				InvolvedObject: about, Type: kind, Reason: reason, Message: message,
				Source: corev1.EventSource{Component: eventComponent}, ReportingController: eventComponent,
				FirstTimestamp: now, LastTimestamp: now, Count: 1,
			})
			if err != nil {
				return nil, err
			}
			event, err := document.Parse(raw)
			if err != nil {
				return nil, err
			}
			return event.Edit().Delete("eventTime").Document() // a null
		}), nil, nil, true, &metav1.UpdateOptions{})
		return err
	})
}

// allow takes one event from the budget of an object.
func (r *events) allow(uid types.UID) bool {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.budgets[uid]
	if b == nil {
		b = &eventBudget{left: eventBurst, at: now}
		r.budgets[uid] = b
	}
	b.left = min(eventBurst, b.left+float64(now.Sub(b.at))/float64(eventPause))
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// forget frees what is kept for an object that is gone.
func (r *events) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.budgets, uid)
}
