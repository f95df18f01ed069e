package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/auth"
	"weir.dev/weir/server/auth/bootstrap"
	"weir.dev/weir/server/auth/certificates"
	"weir.dev/weir/server/auth/rbac"
	"weir.dev/weir/server/auth/reviews"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/rest"
)

// access says who a client is and what it may do.
type access struct {
	authenticator *auth.Authenticator
	authorizer    *auth.Authorizer
	authorities   *auth.Authorities
	index         *rbac.Index
	logger        *slog.Logger

	stored func(group, name string) any // set by follow
	// first is closed when the default roles and bindings have been tried once, with firstErr.
	first    chan struct{}
	firstErr error
}

func newAccess(c *Config, authorities *auth.Authorities) (*access, error) {
	authenticator, err := auth.NewAuthenticator(auth.AuthenticatorConfig{
		Authorities: authorities, TokenFile: c.TokenAuthFile, Anonymous: !c.DisableAnonymous, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	index := rbac.NewIndex(c.Logger)
	return &access{
		authenticator: authenticator, authorizer: &auth.Authorizer{Rules: rbac.NewAuthorizer(index)},
		authorities: authorities, index: index, logger: c.Logger, first: make(chan struct{}),
	}, nil
}

// follow says where roles and bindings are stored. It comes before run.
func (a *access) follow(stored func(group, name string) any) error {
	a.stored = stored
	return a.index.Follow(func(resource string) rest.Watcher {
		watcher, _ := stored(rbacv1.GroupName, resource).(rest.Watcher)
		return watcher
	})
}

// run follows roles and bindings and keeps authorities fresh, until ctx is done.
func (a *access) run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.authorities.Run(ctx)
	}()
	bootstrapped := make(chan struct{})
	go func() {
		defer close(bootstrapped)
		a.firstErr = a.bootstrap(ctx)
		close(a.first)
	}()
	a.index.Run(ctx)
	<-bootstrapped
	<-done
}

// ready returns nil when roles and bindings are known and the default ones are stored. The first try began with
// run, beside what else a start does.
func (a *access) ready(ctx context.Context) error {
	select {
	case <-a.first:
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.firstErr == nil {
		return nil
	}
	if err := a.bootstrap(ctx); err != nil {
		return err
	}
	a.firstErr = nil
	return nil
}

// bootstrap makes the default roles and bindings that are missing, and returns when they are in force.
func (a *access) bootstrap(ctx context.Context) error {
	objects, err := bootstrap.Objects()
	if err != nil {
		return err
	}
	if err := a.index.WaitSynced(ctx); err != nil {
		return err
	}
	return a.reconcile(ctx, objects)
}

// defaults returns the names of the default roles and bindings.
func (a *access) defaults() ([]defaultKey, error) {
	objects, err := bootstrap.Objects()
	if err != nil {
		return nil, err
	}
	keys := make([]defaultKey, 0, len(objects))
	for _, obj := range objects {
		keys = append(keys, defaultRoleKey(obj))
	}
	return keys, nil
}

func defaultRoleKey(obj *document.Document) defaultKey {
	m := rest.MetaOf(obj)
	return defaultKey{schema.GroupResource{Group: rbacv1.GroupName, Resource: bootstrap.ResourceOf(obj)}, m.Namespace(), m.Name()}
}

// restore makes those default roles and bindings again, or brings them up to what they should have.
func (a *access) restore(ctx context.Context, lost defaultKeys) error {
	objects, err := bootstrap.Objects()
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(obj *document.Document) bool { return !lost[defaultRoleKey(obj)] })
	return a.reconcile(ctx, objects)
}

func (a *access) reconcile(ctx context.Context, objects []*document.Document) error {
	return bootstrap.Reconcile(ctx, bootstrap.Config{
		Objects: objects, Has: a.index.Has, Logger: a.logger,
		Storage: func(resource string) bootstrap.Storage {
			storage, _ := a.stored(rbacv1.GroupName, resource).(bootstrap.Storage)
			return storage
		},
	})
}

// virtual are the resources that are answered and not stored.
func (a *access) virtual() (map[schema.GroupResource]any, error) {
	answers, err := reviews.New(reviews.Config{Tokens: a.authenticator, Authorizer: a.authorizer, Rules: a.authorizer})
	if err != nil {
		return nil, err
	}
	out := make(map[schema.GroupResource]any, len(answers))
	for gr, storage := range answers {
		out[gr] = storage
	}
	return out, nil
}

// wire gives a builder what it needs of access: the reviews, the guards of roles and bindings and of requests for certificates, and that writes
// to those are in force when they return.
func (a *access) wire(b *builder) error {
	var err error
	if b.virtual, err = a.virtual(); err != nil {
		return err
	}
	escalation := &rbac.Escalation{Index: a.index, Authorizer: a.authorizer}
	for _, resource := range rbac.Resources() {
		guard := rbac.NewGuard(resource, escalation)
		b.native[schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}] = func(subresource string) []rest.Layer {
			if subresource != "" {
				return nil
			}
			return []rest.Layer{guard}
		}
	}
	b.native[certificates.Resource] = func(subresource string) []rest.Layer {
		return []rest.Layer{certificates.NewGuard(subresource, a.authorizer)}
	}
	modules := schema.GroupResource{Group: "weir.dev", Resource: "modules"}
	b.guard(modules, loader.ModuleAccess(a.authorizer))
	for _, gr := range loader.PolicyResources() {
		b.guard(gr, loader.PolicyAccess(loader.PolicyAccessConfig{Authorizer: a.authorizer,
			Stored: func(group, resource string) any { return a.stored(group, resource) }}, gr))
	}
	if b.wait == nil {
		return errors.New("access: the builder does not wait for configuration yet")
	}
	others := b.wait
	b.wait = func(ctx context.Context, gr schema.GroupResource, rv string) error {
		if gr.Group == rbacv1.GroupName {
			return a.index.WaitFor(ctx, gr.Resource, rv)
		}
		return others(ctx, gr, rv)
	}
	return nil
}
