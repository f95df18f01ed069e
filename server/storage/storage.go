// Package storage is the leaf that says what keeps objects: rows of canonical
// JSON under a key, ordered by resourceVersion. server/storage/etcd3 implements it
// over etcd and server/storage/cacher over another Interface, from memory;
// server/storage/storagetest is the suite that both pass.
package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Row is one stored object.
type Row struct {
	// Key is the whole key, e.g. /registry/apps/deployments/default/web.
	Key string
	// Value is the object as it is served: canonical JSON whose
	// metadata.resourceVersion is ResourceVersion. The zero Text means that there is no such object.
	Value Text
	// ResourceVersion is the revision of the last write of the row.
	ResourceVersion uint64
}

// Codec turns what is served into what is stored and back.
type Codec interface {
	// Encode returns the bytes to store for a served object: the same JSON
	// without metadata.resourceVersion.
	Encode(served []byte) ([]byte, error)
	// Decode returns the served object: what Encode or Check has returned, with
	// metadata.resourceVersion set to rv. It may bring the object up to its
	// current schema. It must not keep or change stored.
	Decode(stored []byte, rv uint64) ([]byte, error)
	// Check returns what Encode would have stored in the place of stored, which was read from the storage, where
	// anybody may have written: stored itself where this server has. It is an ErrCodeCorruptObj where stored is
	// nothing that could be served whole.
	Check(stored []byte) ([]byte, error)
}

// UpdateFunc computes a new value from the current row. It is called again with
// a fresher row when another write came first, so it must have no side effects.
// The row's Value is zero when the object does not exist and IgnoreNotFound is set.
// ttl in seconds; 0 means that the object does not expire.
type UpdateFunc func(current Row) (value []byte, ttl uint64, err error)

// GetOptions says how fresh a Get must be.
type GetOptions struct {
	// IgnoreNotFound returns a Row without Value instead of a NotFound error.
	IgnoreNotFound bool
	// ResourceVersion: "" the most recent, "0" any, N at least N.
	ResourceVersion string
}

// UpdateOptions go with GuaranteedUpdate.
type UpdateOptions struct {
	// IgnoreNotFound lets the UpdateFunc create the object.
	IgnoreNotFound bool
	Preconditions  *Preconditions
	// Cached, where its Value is not zero, is a guess at the current row. It is
	// tried first; before an error that rests on it is returned, the row is read again.
	Cached Row
}

// DeleteOptions go with Delete.
type DeleteOptions struct {
	Preconditions *Preconditions
	// Validate is called with the live row before it is deleted.
	Validate func(ctx context.Context, current Row) error
	// Cached as in UpdateOptions.
	Cached Row
	// Unreadable deletes an object that cannot be read, and only such: ErrCodeInvalidObj
	// for one that can. The rows that Validate and the caller get then have no Value, and
	// only the precondition on the resourceVersion can be checked; one on the uid fails.
	// A watch that meets the deletion ends with ErrCodeCorruptObj.
	Unreadable bool
}

// Preconditions must hold for the live object when it is written.
type Preconditions struct {
	UID             *types.UID
	ResourceVersion *string
}

// ListOptions say which rows a GetList or a Watch concerns and how fresh they must be.
// The table in SEMANTICS of resourceVersion and its match is implemented behind
// this interface, not in front of it.
type ListOptions struct {
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	Predicate            SelectionPredicate
	// Recursive: key is a prefix that ends with "/", else the exact key of one object.
	Recursive bool
	// SendInitialEvents is for Watch only: ADDED for the state, then a bookmark
	// that ends it.
	SendInitialEvents *bool
	// Progress asks a Watch for bookmarks now and then.
	Progress bool
	// Bare spares a Watch without selectors what was before: its events need have no Prev,
	// and a DELETED one no Value. It is for who keeps the rows anyway.
	Bare bool
}

// List is the answer to GetList.
type List struct {
	Rows            []Row
	ResourceVersion uint64
	// Continue is the token of the next page, "" at the end.
	Continue string
	// RemainingItemCount is set where it is known.
	RemainingItemCount *int64
}

// Interface keeps the objects of one or several resources. All methods are safe
// for concurrent use. Errors are *Error where the caller can act on them.
//
// Keys and prefixes are whole, as in a Row: /registry/configmaps/default/a. One that
// is not a clean path below the storage's root is ErrCodeInvalidKey.
type Interface interface {
	// Create stores a new object: ErrCodeKeyExists when the key is taken.
	// ttl in seconds; 0 means that it does not expire.
	Create(ctx context.Context, key string, value []byte, ttl uint64) (Row, error)
	// Get returns one object.
	Get(ctx context.Context, key string, opts GetOptions) (Row, error)
	// GetList returns the objects below a prefix, or the one of a key, in the order of their keys. With an error about
	// objects that cannot be read, see Error.Corrupt, come the Rows that could be, as far as it came, and with
	// those of all of them the ResourceVersion, and nothing else.
	GetList(ctx context.Context, key string, opts ListOptions) (List, error)
	// GuaranteedUpdate calls update with the current row until its result could be
	// stored on exactly that row. A result that equals the current value is not
	// written and leaves the resourceVersion.
	GuaranteedUpdate(ctx context.Context, key string, opts UpdateOptions, update UpdateFunc) (Row, error)
	// Delete removes an object and returns its last state; the Row's ResourceVersion
	// (and the one in its Value) is the revision of the deletion.
	Delete(ctx context.Context, key string, opts DeleteOptions) (Row, error)
	// Watch returns the events after opts.ResourceVersion. "" and "0" mean the
	// current state as ADDED events, then what follows.
	Watch(ctx context.Context, key string, opts ListOptions) (Watcher, error)
	// GetCurrentResourceVersion returns a revision that is at least that of every write that was
	// acknowledged before the call.
	GetCurrentResourceVersion(ctx context.Context) (uint64, error)
	// Count returns how many objects are stored below a prefix.
	Count(ctx context.Context, prefix string) (int64, error)
	// RequestWatchProgress asks that every watch soon learns the current revision.
	RequestWatchProgress(ctx context.Context) error
	// ReadinessCheck returns nil when reads are served.
	ReadinessCheck() error
}

// EventType says what happened to an object, as its watcher sees it.
type EventType string

// The types of events, spelled as on the wire.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// Event is one change of one object, or a bookmark.
type Event struct {
	Type EventType
	// Row is the object: after the change, or for Deleted its last state with
	// the revision of the deletion. For a Bookmark only ResourceVersion is set.
	Row Row
	// Prev is the object before the change, where the storage knows it and the watch is not
	// Bare. The cacher does not give it.
	Prev Row
	// InitialEventsEnd marks the bookmark that ends the initial events.
	InitialEventsEnd bool
}

// Watcher is a cursor on a stream of events. It is used by one goroutine, apart from Stop.
type Watcher interface {
	// Next returns the next events, in order, at least one. It waits until there
	// is one, ctx is done (its error), or the stream is over: io.EOF after a clean
	// end, *Error (ErrCodeExpired: the watcher fell too far behind; it must list again) otherwise.
	// The slice is valid until the next call; the rows are shared.
	Next(ctx context.Context) ([]Event, error)
	// Stop ends the stream and frees what it holds. It may be called more than once.
	Stop()
}

// Offerer is a Watcher that can do without waking, for each event, the goroutine that waits for it.
type Offerer interface {
	Watcher
	// Offer has events that come while Next waits given to take. It is called before Next, once. The takers of a group, such
	// as those of one connection, are given an event one after the other: what they share is in the processor's cache then.
	Offer(take Take, group uint64)
}

// Take takes events, valid until it returns, in the place of a Next that waits. Another goroutine calls it, for many
// watchers one after the other: it must not wait. What it does not take, all of it, Next returns. later is nil or what
// is left to do when others have taken theirs; that of one taker may do the work of another's as well.
type Take func(events []Event) (taken bool, later func())
