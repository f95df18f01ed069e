package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// remainder is what is left of one resource in a namespace after everything was deleted.
type remainder struct {
	resource   schema.GroupResource
	count      int
	finalizers map[string]int // in how many objects
	// where to watch it go
	storage         any
	resourceVersion string
}

// errNotEnding: the storage was restored, while the namespace was swept, from a state in which nobody has deleted it.
var errNotEnding = errors.New("namespace is not being deleted")

// sweep deletes all objects in a namespace and returns what is left, since it has finalizers or
// ends in its own time. One resource that fails does not keep the others.
func (c *Namespaces) sweep(ctx context.Context, ns *document.Document) (left []remainder, failed []error) {
	namespace := rest.MetaOf(ns).Name()
	ending := func() error {
		live, err := c.cfg.Namespaces.Get(ctx, namespace, &metav1.GetOptions{})
		if err == nil && (!waits(live) || rest.MetaOf(live).UID() != rest.MetaOf(ns).UID()) {
			err = errNotEnding
		}
		return err
	}
	catalog, err := c.cfg.Catalog(ctx)
	if err != nil {
		return nil, []error{fmt.Errorf("resources: %w", err)}
	}
	in := rest.WithCatalog(request.WithNamespace(ctx, namespace), catalog)
	for _, r := range catalog.Resources() {
		if !r.Namespaced {
			continue
		}
		storage := deletable(r)
		if storage == nil {
			continue
		}
		rem, err := empty(in, storage, ending)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.GroupResource(), err))
			continue
		}
		if rem.count > 0 {
			rem.resource = r.GroupResource()
			left = append(left, rem)
		}
	}
	return left, failed
}

// deletable returns a storage of the resource that lists and deletes; all versions show
// the same objects. Nil: the resource stores nothing.
func deletable(r *rest.Resource) any {
	for _, v := range r.Versions {
		if _, ok := v.Storage.(rest.Lister); !ok {
			continue
		}
		switch v.Storage.(type) {
		case rest.CollectionDeleter, rest.GracefulDeleter:
			return v.Storage
		}
	}
	return nil
}

// empty deletes the objects in the namespace of ctx, where there are any and ending has no error, and looks what is left.
func empty(ctx context.Context, storage any, ending func() error) (remainder, error) {
	lister := storage.(rest.Lister)
	collection, ok := storage.(rest.CollectionDeleter)
	first := &internalversion.ListOptions{}
	if ok {
		first.Limit = 1 // whether there is anything
	}
	list, err := lister.List(ctx, first)
	if err != nil {
		return remainder{}, err
	}
	if len(list.Items) == 0 {
		return remainder{}, nil
	}
	if err := ending(); err != nil {
		return remainder{}, err
	}
	background := metav1.DeletePropagationBackground
	opts := &metav1.DeleteOptions{PropagationPolicy: &background}
	if ok {
		_, err = collection.DeleteCollection(ctx, nil, opts, &internalversion.ListOptions{})
	} else {
		d := storage.(rest.GracefulDeleter)
		for _, obj := range list.Items {
			if _, _, err = d.Delete(ctx, rest.MetaOf(obj).Name(), nil, opts.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
				break
			}
			err = nil
		}
	}
	if err != nil {
		return remainder{}, err
	}
	if list, err = lister.List(ctx, &internalversion.ListOptions{}); err != nil {
		return remainder{}, err
	}
	rem := remainder{count: len(list.Items), finalizers: map[string]int{}, storage: storage, resourceVersion: list.ResourceVersion}
	for _, obj := range list.Items {
		for _, f := range rest.MetaOf(obj).Finalizers() {
			rem.finalizers[f]++
		}
	}
	return rem, nil
}

// wait returns when one of what is left is gone, or after the resync period.
func (c *Namespaces) wait(ctx context.Context, namespace string, left []remainder) {
	ctx, cancel := context.WithCancel(request.WithNamespace(ctx, namespace))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	gone := make(chan struct{}, 1)
	for _, rem := range left {
		watcher, ok := rem.storage.(rest.Watcher)
		if !ok {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			awaitDeletion(ctx, watcher, rem.resourceVersion)
			select {
			case gone <- struct{}{}:
			default:
			}
		}()
	}
	pause(ctx, gone, c.cfg.Resync)
}

// awaitDeletion returns at the first deletion after resourceVersion. When the watch fails it waits
// for ctx: the resync period decides.
func awaitDeletion(ctx context.Context, watcher rest.Watcher, resourceVersion string) {
	w, err := watcher.Watch(ctx, &internalversion.ListOptions{ResourceVersion: resourceVersion})
	if err != nil {
		<-ctx.Done()
		return
	}
	defer w.Stop()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			<-ctx.Done()
			return
		}
		for _, e := range events {
			if e.Type == "DELETED" {
				return
			}
		}
	}
}

// onUID is an update of exactly one object, not of another one with its name.
type onUID struct {
	rest.UpdateFunc
	uid *types.UID
}

// Preconditions implements rest.UpdatedObjectInfo.
func (u onUID) Preconditions() *metav1.Preconditions { return &metav1.Preconditions{UID: u.uid} }
