package torture_test

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// kind of an operation.
type kind uint8

const (
	create kind = iota
	get
	update // with the resourceVersion it was computed from
	patch  // without one
	remove // with preconditions where the operation has them
)

func (k kind) String() string { return [...]string{"create", "get", "update", "patch", "delete"}[k] }

// outcome of an operation.
type outcome uint8

const (
	done outcome = iota
	exists
	conflict
	missing
	// refused: the server says that it has not begun, or was not reached.
	refused
	// unknown: it may have happened.
	unknown
	// odd: the server says what it should not.
	odd
)

func (o outcome) String() string {
	return [...]string{"done", "exists", "conflict", "missing", "refused", "unknown", "odd"}[o]
}

// operation is one request about one object, and what became of it.
type operation struct {
	client int
	kind   kind
	// object is what was to be written; of an update its rv, and of a delete its rv and uid, are preconditions.
	object
	// creates: an update makes the object where it is not there.
	creates bool
	// call and end are nanoseconds since the run began.
	call, end int64
	outcome   outcome
	// got is the answer of one that is done.
	got object
	// said is the answer of one that is odd.
	said string
}

func (o *operation) String() string {
	return fmt.Sprintf("[%d..%d] client %d %s %s value=%q side=%q rv=%d uid=%q -> %s value=%q rv=%d uid=%q %s",
		o.call/1000, o.end/1000, o.client, o.kind, o.key, o.value, o.side, o.rv, o.uid, o.outcome, o.got.value, o.got.rv, o.got.uid, o.said)
}

// acknowledged reports whether a write is known to have happened.
func (o *operation) acknowledged() bool { return o.kind != get && o.outcome == done }

// operations is what all clients did.
type operations struct {
	mu   sync.Mutex
	list []*operation // guarded by mu
	// floor is the highest revision that a write was acknowledged with.
	floor atomic.Int64
}

func (o *operations) add(op *operation) {
	if op.acknowledged() {
		raise(&o.floor, op.got.rv)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, op)
}

func (o *operations) all() []*operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list
}

// raise sets v to at least n.
func raise(v *atomic.Int64, n int64) {
	for {
		old := v.Load()
		if old >= n || v.CompareAndSwap(old, n) {
			return
		}
	}
}
