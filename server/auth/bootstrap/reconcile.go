package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// Storage stores one of the four resources.
type Storage interface {
	rest.Getter
	rest.Creater
	rest.Updater
	rest.GracefulDeleter
}

// Config is what a Reconciler needs.
type Config struct {
	// Objects that must be there; see Objects.
	Objects []*document.Document
	// Storage of a resource, e.g. clusterroles; nil: not served.
	Storage func(resource string) Storage
	// Has reports whether an object is known to be there. Only what it knows is compared; the rest is created.
	Has func(resource, namespace, name string) bool
	// Parallel is how many objects are written at a time, so that they share a commit. Default 64.
	Parallel int
	Logger   *slog.Logger
}

// Validate reports what is missing and sets defaults.
func (c *Config) Validate() error {
	if c.Storage == nil || c.Has == nil || c.Logger == nil {
		return errors.New("bootstrap: Config needs Storage, Has and Logger")
	}
	if c.Parallel == 0 {
		c.Parallel = 64
	}
	return nil
}

// attempts bounds how often an object that others change meanwhile is looked at again.
const attempts = 4

// Reconcile brings what is stored up to the objects of c, as upstream does at each start: what is missing is created,
// and to what is there the missing rules, subjects, labels and annotations are added; nothing is taken away. A
// binding to another role is made anew. An object whose annotation rbac.authorization.kubernetes.io/autoupdate
// is false is left alone. All objects are tried; the error names those that failed.
func Reconcile(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	errs := make([]error, len(c.Objects))
	slots := make(chan struct{}, c.Parallel)
	var running sync.WaitGroup
	for i, obj := range c.Objects {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.reconcile(ctx, obj)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// ResourceOf returns the name of the resource of one of Objects.
func ResourceOf(obj *document.Document) string {
	return strings.ToLower(obj.Get("kind").String()) + "s"
}

func (c *Config) reconcile(ctx context.Context, wanted *document.Document) error {
	m := rest.MetaOf(wanted)
	resource := ResourceOf(wanted)
	storage := c.Storage(resource)
	if storage == nil {
		return fmt.Errorf("bootstrap: resource %s is not served", resource)
	}
	ctx = request.WithNamespace(ctx, m.Namespace())
	known := c.Has(resource, m.Namespace(), m.Name())
	var err error
	for range attempts {
		if known {
			err = c.complete(ctx, storage, wanted)
		} else {
			_, err = storage.Create(ctx, wanted, nil, &metav1.CreateOptions{})
		}
		switch {
		case err == nil:
			return nil
		case apierrors.IsAlreadyExists(err):
			known = true
		case apierrors.IsNotFound(err) && known:
			known = false
		case apierrors.IsConflict(err):
		default:
			return fmt.Errorf("bootstrap %s %s: %w", resource, m.Name(), err)
		}
	}
	return fmt.Errorf("bootstrap %s %s: %w", resource, m.Name(), err)
}

// complete adds to the stored object what it lacks. It deletes a binding to another role, and then
// returns a NotFound.
func (c *Config) complete(ctx context.Context, storage Storage, wanted *document.Document) error {
	m := rest.MetaOf(wanted)
	have, err := storage.Get(ctx, m.Name(), &metav1.GetOptions{})
	if err != nil {
		return err
	}
	next, err := merge(have, wanted)
	switch {
	case errors.Is(err, errOtherRole):
		uid := rest.MetaOf(have).UID()
		_, _, err := storage.Delete(ctx, m.Name(), nil, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		c.Logger.WarnContext(ctx, "default binding referred to another role and is made anew", "kind", wanted.Get("kind").String(), "name", m.Name())
		return apierrors.NewNotFound(rbacv1.Resource(ResourceOf(wanted)), m.Name())
	case err != nil || next == have:
		return err
	}
	_, _, err = storage.Update(ctx, m.Name(), rest.UpdateFunc(func(_ context.Context, live *document.Document) (*document.Document, error) {
		return merge(live, wanted)
	}), nil, nil, false, &metav1.UpdateOptions{})
	if err == nil {
		c.Logger.InfoContext(ctx, "default role or binding completed", "kind", wanted.Get("kind").String(), "name", m.Name())
	}
	return err
}
