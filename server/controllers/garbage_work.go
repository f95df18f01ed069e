package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// process does what there is to do for an object of the graph.
func (c *Garbage) process(ctx context.Context, objects inventory, n node) error {
	switch {
	case n.waits == waitsForOrphans:
		return c.orphan(ctx, objects, n.identity)
	case n.waits == waitsForDependents:
		return c.release(ctx, objects, n.identity)
	case n.deleting:
		return nil // its end is on the way; then its dependents are looked at
	}
	return c.collect(ctx, objects, n.identity)
}

// orphan takes the references to an object from its dependents, and lets it go.
func (c *Garbage) orphan(ctx context.Context, objects inventory, id identity) error {
	if !objects.serves(id.GroupKind) {
		return &unknownKindError{kind: id.GroupKind}
	}
	obj, err := objects.get(ctx, id)
	if err != nil || obj == nil {
		return err
	}
	if l, ok := lineageOf(obj); !ok || l.waits != waitsForOrphans {
		return nil // the storage was restored from a state before its deletion
	}
	dependents := c.graph.dependents(id.uid, func(e *edge) bool { return objects.serves(e.node.GroupKind) })
	if err := c.disown(ctx, objects, id.uid, dependents); err != nil {
		return err
	}
	return objects.update(ctx, id, func(old *document.Document) (*document.Document, error) {
		return withoutFinalizer(old, metav1.FinalizerOrphanDependents)
	})
}

// maxOrphanErrors is after how many failures the other dependents wait for the next attempt.
const maxOrphanErrors = 10

// disown takes the references to an owner from its dependents, several at a time.
func (c *Garbage) disown(ctx context.Context, objects inventory, owner types.UID, dependents []identity) error {
	uids := []types.UID{owner}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed []error // guarded by mu
	)
	next := make(chan identity)
	for range min(c.cfg.Workers, len(dependents)) {
		wg.Go(func() {
			for d := range next {
				err := objects.update(ctx, d, func(old *document.Document) (*document.Document, error) { return withoutOwners(old, uids) })
				if err != nil {
					mu.Lock()
					failed = append(failed, fmt.Errorf("orphan %s %q in namespace %q: %w", d.GroupKind, d.name, d.namespace, err))
					mu.Unlock()
				}
			}
		})
	}
	for _, d := range dependents {
		mu.Lock()
		enough := len(failed) >= maxOrphanErrors
		mu.Unlock()
		if enough || ctx.Err() != nil {
			break
		}
		next <- d
	}
	close(next)
	wg.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}

// release lets an object go when no dependent keeps it. Dependents of kinds that are not served
// cannot be deleted and keep nothing.
func (c *Garbage) release(ctx context.Context, objects inventory, id identity) error {
	if c.graph.anyDependent(id.uid, func(e *edge) bool { return e.blocks && objects.serves(e.node.GroupKind) }) {
		return nil // its going brings the owner back here
	}
	return objects.update(ctx, id, func(old *document.Document) (*document.Document, error) {
		return withoutFinalizer(old, metav1.FinalizerDeleteDependents)
	})
}

// collect deletes an object that has no owner left, and takes references from it that hold no longer.
func (c *Garbage) collect(ctx context.Context, objects inventory, id identity) error {
	obj, err := objects.get(ctx, id)
	if err != nil || obj == nil || rest.MetaOf(obj).Deleting() {
		return err // the event of its deletion is on the way
	}
	refs := referencesOf(obj)
	if len(refs) == 0 {
		return nil
	}
	var solid, waiting bool
	var stale []types.UID
	for _, r := range refs {
		s, err := c.classify(ctx, objects, r, id.namespace)
		switch {
		case err != nil:
			return err
		case s == standsSolid:
			solid = true
			continue
		case s == standsWaiting:
			waiting = true
		case s == standsUnknown, s == standsAhead:
			return nil
		}
		stale = append(stale, r.uid)
	}
	if solid {
		if len(stale) == 0 {
			return nil
		}
		return objects.update(ctx, id, func(old *document.Document) (*document.Document, error) { return withoutOwners(old, stale) })
	}
	hasDependents := c.graph.anyDependent(id.uid, func(e *edge) bool { return objects.serves(e.node.GroupKind) })
	if !waiting || !hasDependents {
		return objects.delete(ctx, id, obj, propagationOf(obj))
	}
	if c.graph.anyDependent(id.uid, func(e *edge) bool { return e.node.waits == waitsForDependents }) {
		// Maybe a circle: its owner waits for it, and it would wait for its dependent, which waits already.
		err := objects.update(ctx, id, unblocking)
		if err != nil {
			return err
		}
		if obj, err = objects.get(ctx, id); err != nil || obj == nil {
			return err
		}
	}
	return objects.delete(ctx, id, obj, metav1.DeletePropagationForeground)
}

// propagationOf returns the policy that the finalizers of obj ask for.
func propagationOf(obj *document.Document) metav1.DeletionPropagation {
	finalizers := rest.MetaOf(obj).Finalizers()
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// standing is how it stands with the owner that a reference means.
type standing uint8

const (
	standsUnknown standing = iota
	// standsSolid: it is there.
	standsSolid
	// standsWaiting: it is there and waits for its dependents to go.
	standsWaiting
	// standsAbsent: there is no such owner.
	standsAbsent
	// standsAhead: it waits for its dependents to go, which the graph has not been told yet: neither may it know all of them. They
	// are looked at again when it is told.
	standsAhead
)

// classify says how it stands with the owner that r, in an object of a namespace, means. It asks storage
// unless the graph knows it to be there: nothing is deleted for what was seen in the past. standsUnknown: the reference is one that nothing can be said of,
// from a cluster-scoped object to a kind in namespaces.
func (c *Garbage) classify(ctx context.Context, objects inventory, r reference, namespace string) (standing, error) {
	solid, o := c.graph.solid(r, namespace)
	if solid {
		return standsSolid, nil
	}
	namespaced, err := objects.namespaced(r.GroupKind)
	if err != nil {
		unknown := &unknownKindError{kind: r.GroupKind}
		if resource, ended := c.graph.ended(r, o); ended { // maybe with its definition, which is asked for instead
			if undefined, err := objects.undefined(ctx, resource); undefined || err != nil {
				return standsAbsent, err
			}
			unknown.resource = resource
		}
		return standsUnknown, fmt.Errorf("owner %q: %w", r.name, unknown)
	}
	if namespaced && namespace == "" {
		c.cfg.Logger.DebugContext(ctx, "cluster-scoped object refers to an owner in a namespace", "owner", r.GroupKind, "name", r.name)
		return standsUnknown, nil
	}
	if !namespaced {
		namespace = ""
	}
	id := r.at(namespace)
	live, err := objects.get(ctx, id)
	if err != nil {
		return standsUnknown, fmt.Errorf("owner %s %q: %w", r.GroupKind, r.name, err)
	}
	if live == nil {
		return standsAbsent, nil
	}
	c.graph.found(o, id)
	if l, ok := lineageOf(live); !ok || l.waits != waitsForDependents {
		return standsSolid, nil
	}
	if n, ok := c.graph.node(id.uid); !ok || n.waits != waitsForDependents {
		return standsAhead, nil
	}
	return standsWaiting, nil
}
