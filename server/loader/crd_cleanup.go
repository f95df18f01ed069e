package loader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
)

// cleanupPause is the time between two looks at what is left, doubled up to cleanupPauseMax.
const (
	cleanupPause    = 20 * time.Millisecond
	cleanupPauseMax = 5 * time.Second
)

// cleanup removes the objects of a definition that is being deleted, and then lets the definition go. It asks for the definition
// before it deletes: that of a restored storage may not be being deleted, and another one may have its name by now.
type cleanup struct {
	*Loader
	name string
	uid  types.UID
	// objects is the resource of the definition, empty when it was never served.
	objects schema.GroupResource
	// bare is set where the definition cannot be served: another server may have stored objects of it.
	bare *resources.Definition
}

// run deletes all objects, waits until those with finalizers are gone too, and lets the definition go.
func (c *cleanup) run(ctx context.Context) {
	pause, told := cleanupPause, ""
	for {
		done, err := c.once(ctx)
		if done || ctx.Err() != nil {
			return
		}
		if err != nil {
			level := slog.LevelDebug // it has been said
			if text := err.Error(); text != told {
				level, told = slog.LevelWarn, text
			}
			c.cfg.Logger.Log(ctx, level, "objects of a deleted definition remain", "name", c.name, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, cleanupPauseMax)
	}
}

func (c *cleanup) once(ctx context.Context) (done bool, err error) {
	getter, ok := c.builtin(crdResource).(rest.Getter)
	if !ok {
		return false, fmt.Errorf("%s cannot be read", crdResource)
	}
	live, err := getter.Get(ctx, c.name, &metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case !c.waits(live):
		return true, nil
	}
	if empty, err := c.empty(ctx); err != nil || !empty {
		return false, err
	}
	updater, ok := c.builtin(crdResource).(rest.Updater)
	if !ok {
		return false, fmt.Errorf("%s cannot be updated", crdResource)
	}
	_, _, err = updater.Update(ctx, c.name, rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		if !c.waits(old) {
			return old, nil
		}
		var kept []any
		for _, f := range rest.MetaOf(old).Finalizers() {
			if f != apiextensionsv1.CustomResourceCleanupFinalizer {
				kept = append(kept, f)
			}
		}
		edit := old.Edit()
		if len(kept) == 0 {
			edit.Delete("metadata", "finalizers")
		} else {
			edit.Set(kept, "metadata", "finalizers")
		}
		return edit.Document()
	}), nil, nil, false, &metav1.UpdateOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// waits reports whether crd is the definition, and waits for its objects to go.
func (c *cleanup) waits(crd *document.Document) bool {
	meta := rest.MetaOf(crd)
	return meta.UID() == c.uid && meta.Deleting() && slices.Contains(meta.Finalizers(), apiextensionsv1.CustomResourceCleanupFinalizer)
}

// empty deletes what can be deleted, by the strategy that is in force now, and reports whether nothing is left.
func (c *cleanup) empty(ctx context.Context) (bool, error) {
	if c.objects.Empty() && c.bare == nil {
		return true, nil
	}
	snapshot, release := c.holder.Acquire()
	defer release()
	r := snapshot.Resource(c.objects.Group, c.objects.Resource)
	var err error
	switch {
	case c.bare != nil:
		r, err = c.cfg.Builder.Build(c.bare, true, nil)
	case r == nil:
		return false, nil // the start goes on: it is not published yet
	case len(r.Versions) == 0:
		r, err = c.unserved()
	}
	if err != nil {
		return false, err
	}
	storage, ok := r.Versions[0].Storage.(Storage)
	if !ok || !r.Custom {
		return false, fmt.Errorf("%s cannot be deleted", c.objects)
	}
	if _, err := storage.DeleteCollection(ctx, nil, &metav1.DeleteOptions{}, &internalversion.ListOptions{}); err != nil {
		return false, err
	}
	left, err := storage.List(ctx, &internalversion.ListOptions{Limit: 1})
	if err != nil {
		return false, err
	}
	return len(left.Items) == 0, nil
}

// unserved makes the resource of a definition of which no version is served: objects may be left of the time when one
// was.
func (c *cleanup) unserved() (*rest.Resource, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[c.objects]
	if e == nil || len(e.definition.Versions) == 0 {
		return nil, fmt.Errorf("%s has no versions", c.objects)
	}
	d := *e.definition
	d.Versions = slices.Clone(d.Versions)
	for i := range d.Versions {
		d.Versions[i].Served = true
	}
	return c.cfg.Builder.Build(&d, true, nil)
}
