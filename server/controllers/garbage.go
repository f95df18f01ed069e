package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/util/workqueue"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

const (
	// garbageCollectorName is upstream's name of the service account and of the field manager.
	garbageCollectorName = "generic-garbage-collector"
	// defaultGarbageWorkers is how many objects are worked on at a time.
	defaultGarbageWorkers = 8
	// defaultGarbageResync is how long a kind that was not served may be served unnoticed where nothing
	// else happens.
	defaultGarbageResync = time.Minute
	// lastGarbageRetry bounds the pause after failures with one object.
	lastGarbageRetry = 5 * time.Minute
)

// RowHandler is told what is stored, in order, by one goroutine. Of the objects it reads only apiVersion,
// kind and metadata. It does not wait for anything.
type RowHandler interface {
	// Begin starts a listing: a Put of every stored object, then End.
	Begin()
	// End says that the listing is complete.
	End()
	// Put gives an object as it is.
	Put(obj *document.Document)
	// Foreign gives an object that is there though no request finds it: what it owns stays. It has no owners itself.
	Foreign(obj *document.Document)
	// Remove gives the last state of an object that is gone, and what it was stored as.
	Remove(resource schema.GroupResource, obj *document.Document)
	// RemoveForeign gives the last state of a foreign one that is gone. It may be a copy of one that is there.
	RemoveForeign(obj *document.Document)
}

// Rows is a stream of what is stored of all resources.
type Rows interface {
	// Follow tells h of all objects, and then of every change in the order of the writes, until ctx is done
	// or the stream breaks. A row that cannot be read is left out. Its error is why it ended.
	Follow(ctx context.Context, h RowHandler) error
}

// GarbageConfig says what Garbage works on.
type GarbageConfig struct {
	Rows Rows
	// Pin returns the resources in force, and a function to be called when they are needed no more.
	Pin func() (rest.Catalog, func())
	// WaitDefined waits until all resources that are defined are among those that Pin returns; nil: they always are.
	WaitDefined func(ctx context.Context) error
	// Workers is how many objects are worked on at a time; 0: 8.
	Workers int
	// Resync see defaultGarbageResync; 0: one minute.
	Resync time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

// Validate reports what is missing.
func (c *GarbageConfig) Validate() error {
	if c.Rows == nil || c.Pin == nil {
		return errors.New("garbage collector: rows or pin is nil")
	}
	return nil
}

// Garbage deletes objects whose owners (metadata.ownerReferences) are all gone, and does what
// an object waits for that is deleted with propagationPolicy Foreground or Orphan.
//
// It reads one stream of all rows and keeps only the objects that have owners or wait. Whatever it does is
// conditional on the uid of the object, so that several servers may do it at once; they do the same work
// twice then, as no leader is elected.
type Garbage struct {
	cfg   GarbageConfig
	graph *graph
	queue workqueue.TypedRateLimitingInterface[types.UID]
	kinds kindIndex

	mu sync.Mutex
	// parked are objects for which a kind is needed that is not served; parkedAt is the generation of the
	// catalog then. guarded by mu
	parked   map[types.UID]*unknownKindError
	parkedAt uint64
	// undefined counts the definitions that were deleted. guarded by mu
	undefined uint64

	failures failures
}

// NewGarbage returns the controller. Run starts it.
func NewGarbage(cfg GarbageConfig) (*Garbage, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Workers <= 0 {
		cfg.Workers = defaultGarbageWorkers
	}
	if cfg.Resync <= 0 {
		cfg.Resync = defaultGarbageResync
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Garbage{cfg: cfg, parked: map[types.UID]*unknownKindError{}, failures: failures{logger: cfg.Logger}}, nil
}

// Run works until ctx is done and all its goroutines ended. It is called once.
func (c *Garbage) Run(ctx context.Context) {
	ctx = request.WithUser(ctx, serviceaccount.UserInfo(metav1.NamespaceSystem, garbageCollectorName, ""))
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastGarbageRetry))
	c.graph = newGraph(c.queue.Add)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer c.queue.ShutDown()
	for range c.cfg.Workers {
		owned.Go(func() { c.work(ctx) })
	}
	owned.Go(func() { c.unparkNowAndThen(ctx) })

	retry := firstRetry
	for ctx.Err() == nil {
		started := time.Now()
		err := c.cfg.Rows.Follow(ctx, rowHandler{c})
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > lastRetry {
			retry = firstRetry
		}
		c.cfg.Logger.WarnContext(ctx, "stream of stored objects ended; it is opened again", "error", err, "retryIn", retry)
		pause(ctx, nil, retry)
		retry = min(2*retry, lastRetry)
	}
}

// rowHandler feeds the graph.
type rowHandler struct{ *Garbage }

var _ RowHandler = rowHandler{}

// Begin implements RowHandler.
func (h rowHandler) Begin() { h.graph.begin() }

// End implements RowHandler.
func (h rowHandler) End() {
	h.graph.end()
	h.mu.Lock()
	h.unparkLocked(func(*unknownKindError) bool { return true }) // some may be gone
	h.mu.Unlock()
	nodes, owners := h.graph.size()
	h.cfg.Logger.Debug("owners are known", "dependents", nodes, "owners", owners)
}

// Put implements RowHandler.
func (h rowHandler) Put(obj *document.Document) {
	if l, ok := lineageOf(obj); ok {
		h.graph.put(l)
	}
	h.unpark()
}

// Foreign implements RowHandler.
func (h rowHandler) Foreign(obj *document.Document) {
	if l, ok := lineageOf(obj); ok {
		h.graph.putForeign(l.identity)
	}
}

// Remove implements RowHandler.
func (h rowHandler) Remove(resource schema.GroupResource, obj *document.Document) {
	if l, ok := lineageOf(obj); ok {
		h.graph.removeForeign(l.identity)
	}
	if uid := rest.MetaOf(obj).UID(); uid != "" {
		h.graph.remove(uid, rest.KindOf(obj).GroupKind(), resource)
		h.mu.Lock()
		delete(h.parked, uid)
		if resource == definitions { // the catalog stays as it is where it was not served
			h.undefined++
			name := rest.MetaOf(obj).Name()
			h.unparkLocked(func(needed *unknownKindError) bool { return needed.resource.String() == name })
		}
		h.mu.Unlock()
	}
	h.unpark()
}

// RemoveForeign implements RowHandler.
func (h rowHandler) RemoveForeign(obj *document.Document) {
	if l, ok := lineageOf(obj); ok {
		h.graph.removeForeign(l.identity)
	}
}

// work takes objects from the queue until it is shut down.
func (c *Garbage) work(ctx context.Context) {
	for {
		uid, closed := c.queue.Get()
		if closed {
			return
		}
		c.handle(ctx, uid)
		c.queue.Done(uid)
	}
}

func (c *Garbage) handle(ctx context.Context, uid types.UID) {
	n, ok := c.graph.node(uid)
	if !ok || ctx.Err() != nil {
		c.queue.Forget(uid)
		return
	}
	c.mu.Lock()
	delete(c.parked, uid)
	undefined := c.undefined
	c.mu.Unlock()
	generation, err := c.processPinned(ctx, n)
	var unknown *unknownKindError
	switch {
	case err == nil:
		c.queue.Forget(uid)
	case errors.As(err, &unknown):
		c.queue.Forget(uid)
		c.park(uid, unknown, generation, undefined)
		c.cfg.Logger.DebugContext(ctx, "object waits for a kind to be served", "kind", n.GroupKind, "namespace", n.namespace, "name", n.name, "error", err)
	case ctx.Err() == nil:
		c.queue.AddRateLimited(uid)
		c.failures.tell(ctx, n, err, c.queue.NumRequeues(uid))
	}
}

// processPinned does what there is to do for an object with the resources in force, whose generation it returns.
func (c *Garbage) processPinned(ctx context.Context, n node) (generation uint64, err error) {
	catalog, release := c.cfg.Pin()
	defer func() { release() }()
	objects := c.kinds.inventory(catalog)
	// What nobody can reach keeps no owner, and stays with its reference to one that orphans it. But it may only be that this
	// server has not heard of the kind yet.
	unserved := func(e *edge) bool { return !objects.serves(e.node.GroupKind) }
	if n.waits != waitsForNothing && c.cfg.WaitDefined != nil && c.graph.anyDependent(n.uid, unserved) {
		if err := c.cfg.WaitDefined(ctx); err != nil {
			return catalog.Generation(), err
		}
		release()
		catalog, release = c.cfg.Pin()
		objects = c.kinds.inventory(catalog)
	}
	return catalog.Generation(), c.process(ctx, objects, n)
}

// park sets an object aside until a kind is served that was not in the catalog of generation, or more definitions are deleted than
// undefined.
func (c *Garbage) park(uid types.UID, needed *unknownKindError, generation, undefined uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if undefined != c.undefined {
		c.queue.Add(uid)
		return
	}
	if len(c.parked) == 0 || generation < c.parkedAt {
		c.parkedAt = generation
	}
	if _, ok := c.graph.node(uid); ok { // it may be gone since it was taken from the queue
		c.parked[uid] = needed
	}
}

// unpark puts what is parked back into the queue where its kind is served now.
func (c *Garbage) unpark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parked) == 0 {
		return
	}
	catalog, release := c.cfg.Pin()
	defer release()
	if catalog.Generation() == c.parkedAt {
		return
	}
	c.parkedAt = catalog.Generation()
	objects := c.kinds.inventory(catalog)
	c.unparkLocked(func(needed *unknownKindError) bool { return objects.serves(needed.kind) })
}

// unparkLocked puts what is parked back into the queue where ready is true for what it needs.
func (c *Garbage) unparkLocked(ready func(needed *unknownKindError) bool) {
	for uid, needed := range c.parked {
		if ready(needed) {
			c.queue.Add(uid)
			delete(c.parked, uid)
		}
	}
}

func (c *Garbage) unparkNowAndThen(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Resync)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.unpark()
			c.failures.sum(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// unknownKindError: a kind that is not served. resource is what an owner of it was stored as whose end was seen, if any.
type unknownKindError struct {
	kind     schema.GroupKind
	resource schema.GroupResource
}

func (e *unknownKindError) Error() string { return fmt.Sprintf("kind %s is not served", e.kind) }
