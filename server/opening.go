package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/request"
)

// DefaultOpeningPatience is that of upstream's admission.
const DefaultOpeningPatience = 10 * time.Second

// opening keeps a server that starts from answering without what decides on a request: nothing is written before all
// policies and strategies are in force, and no resource is said not to exist before all definitions are known.
// Requests wait for that, and for the roles, until patience is over. Then writes are refused, but for those that no policy
// judges, and the rest gets what is there: a configuration that cannot be read is mended by requests.
type opening struct {
	open     atomic.Bool   // all is in force
	all      chan struct{} // is closed then,
	rules    chan struct{} // this one when policies and strategies are, the default ones included,
	stored   chan struct{} // this one when those are that the storage has,
	over     chan struct{} // and this one when patience is over
	patience time.Duration
	served   func(schema.GroupResource) bool
	broken   func(ctx context.Context, definition string) bool // nobody can read it
}

func newOpening(patience time.Duration) *opening {
	return &opening{all: make(chan struct{}), rules: make(chan struct{}), stored: make(chan struct{}), over: make(chan struct{}), patience: patience}
}

// begin begins patience; end ends it early.
func (o *opening) begin() (end func()) {
	over := sync.OnceFunc(func() { close(o.over) })
	timer := time.AfterFunc(o.patience, over)
	return func() {
		timer.Stop()
		over()
	}
}

// loaded says that the policies, strategies and definitions that are stored are in force.
func (o *opening) loaded() { close(o.stored) }

// ruled says that the default ones are too.
func (o *opening) ruled() { close(o.rules) }

// opened says that roles are in force as well.
func (o *opening) opened() {
	o.open.Store(true)
	close(o.all)
}

// wait returns nil when a request may be answered, 503 when it must not, or why ctx has ended.
func (o *opening) wait(ctx context.Context, info *request.Info, who user.Info) error {
	if o.open.Load() || !isAPI(info) {
		return nil
	}
	select {
	case <-o.all:
		return nil
	case <-o.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if closed(o.rules) || !info.IsResourceRequest {
		return nil
	}
	gr := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	switch {
	case policy.IsExempt(gr.Group, gr.Resource), o.mendsDefinitions(ctx, info, who):
		return nil
	case closed(o.stored) && (isRead(info.Verb) || strings.HasPrefix(info.Verb, "delete")):
		return nil // a storage that is full has no room for the defaults until something is deleted
	case !o.served(gr):
		return notOpen(fmt.Sprintf("it does not know yet whether it serves %s", gr))
	case !isRead(info.Verb):
		return notOpen("what judges this write is not in force yet")
	}
	return nil
}

// isAPI reports whether a request is for what stored configuration decides on.
func isAPI(info *request.Info) bool {
	if info == nil {
		return false
	}
	return info.IsResourceRequest || slices.ContainsFunc([]string{"/api", "/apis", "/openapi"}, func(prefix string) bool {
		rest, ok := strings.CutPrefix(info.Path, prefix)
		return ok && (rest == "" || rest[0] == '/')
	})
}

func isRead(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

// mendsDefinitions reports whether an administrator deletes a definition that nobody can read, and which may be what the start
// waits for.
func (o *opening) mendsDefinitions(ctx context.Context, info *request.Info, who user.Info) bool {
	return info.Verb == "delete" && info.APIGroup == definitionResource.Group && info.Resource == definitionResource.Resource &&
		who != nil && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) && o.broken(ctx, info.Name)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func notOpen(why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf("the server is starting: %s; the log and /readyz/configuration say what it waits for", why),
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
	}}
}
