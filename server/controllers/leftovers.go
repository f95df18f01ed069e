package controllers

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// leftover is an object in a namespace that has ended.
type leftover struct {
	storage rest.GracefulDeleter
	obj     *document.Document
}

// lookAgain deletes what is in a namespace that has ended: it was admitted before, by this server or by one that had not heard of
// the end yet, and stored when nobody looked any more. It ends with ctx.
func (c *Namespaces) lookAgain(ctx context.Context, namespace string) {
	started := time.Now()
	for _, look := range c.cfg.Looks {
		pause(ctx, nil, look-time.Since(started))
		if ctx.Err() != nil {
			return
		}
		n, err := c.deleteLeftovers(ctx, namespace)
		if err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("a namespace that has ended cannot be looked at for what it has still got", "namespace", namespace, "error", err)
		}
		if n > 0 {
			c.cfg.Logger.Info("objects were stored in a namespace that had ended; they are deleted", "namespace", namespace, "objects", n)
		}
	}
}

// deleteLeftovers deletes what is in a namespace that does not exist, and returns how much that is.
func (c *Namespaces) deleteLeftovers(ctx context.Context, namespace string) (int, error) {
	select {
	case c.sweeps <- struct{}{}:
		defer func() { <-c.sweeps }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if _, err := c.cfg.Namespaces.Get(ctx, namespace, &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return 0, err
	}
	catalog, err := c.cfg.Catalog(ctx)
	if err != nil {
		return 0, err
	}
	in := rest.WithCatalog(request.WithNamespace(ctx, namespace), catalog)
	var left []leftover
	for _, r := range catalog.Resources() {
		if !r.Namespaced {
			continue
		}
		storage := deletable(r)
		deleter, ok := storage.(rest.GracefulDeleter)
		if !ok {
			continue
		}
		list, err := storage.(rest.Lister).List(in, &internalversion.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", r.GroupResource(), err)
		}
		for _, obj := range list.Items {
			left = append(left, leftover{deleter, obj})
		}
	}
	if len(left) == 0 {
		return 0, nil
	}
	// Asked after the lists: what they have is not that of a namespace that was made anew since.
	if _, err := c.cfg.Namespaces.Get(ctx, namespace, &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return 0, err
	}
	background := metav1.DeletePropagationBackground
	for _, l := range left {
		uid := rest.MetaOf(l.obj).UID()
		opts := &metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid}}
		_, _, err := l.storage.Delete(in, rest.MetaOf(l.obj).Name(), nil, opts)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, err
		}
	}
	return len(left), nil
}
