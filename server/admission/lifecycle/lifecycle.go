// Package lifecycle is the admission that ties objects to the life of their namespace,
// upstream's NamespaceLifecycle: nothing is created in a namespace that does not exist
// or is being deleted, and the namespaces that a cluster needs are not deleted.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// liveAfterDelete is how long after a request to delete a namespace a cached view
// of it is not believed. It is upstream's.
const liveAfterDelete = 30 * time.Second

// Config says where namespaces are read.
type Config struct {
	// Namespaces is asked for the state of any age (resourceVersion "0") first.
	Namespaces rest.Getter
	// Immortal are namespaces that nobody deletes; nil: default, kube-system and kube-public.
	Immortal []string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Lifecycle is an admission.Mutator, so that it refuses before anything else is done. It
// changes nothing. It is safe for concurrent use.
type Lifecycle struct {
	namespaces rest.Getter
	immortal   []string
	now        func() time.Time

	mu sync.Mutex
	// deleted holds until when a namespace is read live. guarded by mu
	deleted map[string]time.Time
}

var _ admission.Mutator = (*Lifecycle)(nil)

// New returns a Lifecycle.
func New(cfg Config) (*Lifecycle, error) {
	if cfg.Namespaces == nil {
		return nil, errors.New("lifecycle: namespaces are nil")
	}
	l := &Lifecycle{namespaces: cfg.Namespaces, immortal: slices.Clone(cfg.Immortal), now: cfg.Now, deleted: map[string]time.Time{}}
	if cfg.Immortal == nil {
		l.immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
	}
	if l.now == nil {
		l.now = time.Now
	}
	return l, nil
}

// Handles implements admission.Mutator.
func (l *Lifecycle) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Delete
}

// Admit implements admission.Mutator.
func (l *Lifecycle) Admit(ctx context.Context, a *admission.Attributes) error {
	if a.Kind.Group == "" && a.Kind.Kind == "Namespace" {
		if a.Operation == admission.Delete && a.Subresource == "" {
			return l.admitDelete(a)
		}
		return nil
	}
	// Reviews say nothing of whether a namespace exists.
	if a.Operation != admission.Create || a.Namespace == "" || a.Resource.Group == "authorization.k8s.io" {
		return nil
	}
	terminating, err := l.terminating(ctx, a.Namespace)
	if err != nil || !terminating {
		return err
	}
	out := apierrors.NewForbidden(a.Resource.GroupResource(), admission.NameOf(a),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.Namespace))
	out.ErrStatus.Details.Causes = append(out.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", a.Namespace),
		Field:   "metadata.namespace",
	})
	return out
}

func (l *Lifecycle) admitDelete(a *admission.Attributes) error {
	if slices.Contains(l.immortal, a.Name) {
		return apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, errors.New("this namespace may not be deleted"))
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, until := range l.deleted {
		if now.After(until) {
			delete(l.deleted, name)
		}
	}
	l.deleted[a.Name] = now.Add(liveAfterDelete)
	return nil
}

// terminating reports whether the namespace is being deleted. One that does not exist is
// a NotFound. A cached view is believed only when it is good news.
func (l *Lifecycle) terminating(ctx context.Context, namespace string) (bool, error) {
	if !l.readLive(namespace) {
		terminating, err := l.phase(ctx, namespace, "0")
		if err == nil && !terminating {
			return false, nil
		}
	}
	return l.phase(ctx, namespace, "")
}

func (l *Lifecycle) phase(ctx context.Context, namespace, resourceVersion string) (terminating bool, err error) {
	obj, err := l.namespaces.Get(ctx, namespace, &metav1.GetOptions{ResourceVersion: resourceVersion})
	if err != nil {
		return false, err
	}
	return obj.Get("status", "phase").String() == string(corev1.NamespaceTerminating), nil
}

func (l *Lifecycle) readLive(namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.deleted[namespace]
	return ok && !l.now().After(until)
}
