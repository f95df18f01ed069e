package rest

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
)

// ValidateObjectFunc is validating admission for a create or delete, called on what will be stored.
type ValidateObjectFunc func(ctx context.Context, obj *document.Document) error

// ValidateObjectUpdateFunc is validating admission for an update.
type ValidateObjectUpdateFunc func(ctx context.Context, obj, old *document.Document) error

// Getter serves GET of one object. Errors of all verbs are apierrors.APIStatus.
type Getter interface {
	Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error)
}

// Lister serves GET of a collection. The namespace is in the context.
type Lister interface {
	List(ctx context.Context, opts *internalversion.ListOptions) (*List, error)
}

// List is a page of objects in their stored version.
type List struct {
	Items              []*document.Document
	ResourceVersion    string
	Continue           string
	RemainingItemCount *int64
}

// Watcher serves ?watch. The stream ends when ctx is done.
type Watcher interface {
	Watch(ctx context.Context, opts *internalversion.ListOptions) (Watch, error)
}

// Watch is a cursor on events, used by one goroutine, apart from Stop.
type Watch interface {
	// Next waits for at least one event. io.EOF: the stream ended cleanly. An error
	// that is an APIStatus becomes an ERROR event. The slice is valid until the next call.
	Next(ctx context.Context) ([]Event, error)
	// Stop frees the cursor.
	Stop()
}

// Offerer is a Watch whose events can come without waking the goroutine that waits for them.
type Offerer interface {
	Watch
	// Offer has events that come while Next waits given to take. It is called before Next, once. For group see
	// storage.Offerer.
	Offer(take Take, group uint64)
}

// Take takes events in the place of a Next that waits, see storage.Take.
type Take func(events []Event) (taken bool, later func())

// Event is one event of a watch.
type Event struct {
	// Type is ADDED, MODIFIED, DELETED or BOOKMARK.
	Type string
	// Object in its stored version; nil for a BOOKMARK. It is shared between watchers.
	Object *document.Document
	// ResourceVersion of the event.
	ResourceVersion string
	// InitialEventsEnd marks the bookmark after the initial events.
	InitialEventsEnd bool
}

// Creater serves POST to a collection.
type Creater interface {
	Create(ctx context.Context, obj *document.Document, validate ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error)
}

// NamedCreater serves POST to a subresource of an object, such as pods/eviction.
type NamedCreater interface {
	CreateNamed(ctx context.Context, name string, obj *document.Document, validate ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error)
}

// UpdatedObjectInfo computes the object that an update wants from the live one.
type UpdatedObjectInfo interface {
	// Preconditions may be nil.
	Preconditions() *metav1.Preconditions
	// UpdatedObject is called with the live object (nil when there is none) and again
	// with a fresher one after a conflict.
	UpdatedObject(ctx context.Context, old *document.Document) (*document.Document, error)
}

// Updater serves PUT and PATCH.
type Updater interface {
	// Update stores what info makes of the live object. forceAllowCreate lets it create one
	// (server-side apply). created reports whether it did.
	Update(ctx context.Context, name string, info UpdatedObjectInfo, validateCreate ValidateObjectFunc,
		validateUpdate ValidateObjectUpdateFunc, forceAllowCreate bool, opts *metav1.UpdateOptions) (obj *document.Document, created bool, err error)
}

// GracefulDeleter serves DELETE of one object.
type GracefulDeleter interface {
	// Delete returns the last state of the object; deleted is false when it
	// only carries a deletionTimestamp now, because of finalizers.
	Delete(ctx context.Context, name string, validate ValidateObjectFunc, opts *metav1.DeleteOptions) (obj *document.Document, deleted bool, err error)
}

// CorruptObjectDeleter deletes what is stored but cannot be read.
type CorruptObjectDeleter interface {
	// DeleteCorrupt deletes the object whatever waits for it, finalizers and dependents among them, since nothing
	// of it is known. One that can be read is a Conflict, as upstream (KEP-3926).
	DeleteCorrupt(ctx context.Context, name string, opts *metav1.DeleteOptions) error
}

// CollectionDeleter serves DELETE of a collection.
type CollectionDeleter interface {
	DeleteCollection(ctx context.Context, validate ValidateObjectFunc, opts *metav1.DeleteOptions, list *internalversion.ListOptions) (*List, error)
}
