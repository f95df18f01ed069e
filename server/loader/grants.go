package loader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/server/apis/v1alpha1"
)

// grants are the capabilities that a Module object grants now. What is in force was granted what it asks for when it was
// loaded; what is taken away since then is gone at once, though the module stays in force until another is.
type grants struct {
	list atomic.Pointer[[]string]
}

func newGrants(capabilities []string) *grants {
	g := &grants{}
	g.set(capabilities)
	return g
}

func (g *grants) set(capabilities []string) { g.list.Store(&capabilities) }

func (g *grants) have(capability string) bool { return abi.Granted(*g.list.Load(), capability) }

type asksNothingKey struct{}

// withoutAsking returns a context whose modules are granted nothing.
func withoutAsking(ctx context.Context) context.Context {
	return context.WithValue(ctx, asksNothingKey{}, true)
}

func asksNothing(ctx context.Context) bool { return ctx.Value(asksNothingKey{}) != nil }

// grantedLookuper looks up what is granted.
type grantedLookuper struct {
	*grants
	from host.Lookuper
}

// Lookup implements host.Lookuper.
func (l grantedLookuper) Lookup(ctx context.Context, q *lookup.Query) (*lookup.Found, error) {
	if asksNothing(ctx) || !l.have(q.Capability()) {
		return nil, abi.EPERM
	}
	return l.from.Lookup(ctx, q)
}

// grantedAuthorizer authorizes if that is granted.
type grantedAuthorizer struct {
	*grants
	from host.Authorizer
}

// Authorize implements host.Authorizer.
func (a grantedAuthorizer) Authorize(ctx context.Context, r *abi.AuthorizeRequest) (bool, error) {
	if asksNothing(ctx) || !a.have(abi.CapabilityAuthorize) {
		return false, abi.EPERM
	}
	return a.from.Authorize(ctx, r)
}

// moduleConfig is how a Module is loaded that may use what capabilities say, as long as g has them.
func (l *Loader) moduleConfig(name string, limits host.Limits, capabilities []string, g *grants) host.ModuleConfig {
	c := host.ModuleConfig{Name: name, Limits: limits, Capabilities: capabilities, Logger: l.cfg.Logger}
	if l.cfg.Lookuper != nil {
		c.Lookuper = grantedLookuper{g, l.cfg.Lookuper}
	}
	if l.cfg.Authorizer != nil {
		c.Authorizer = grantedAuthorizer{g, l.cfg.Authorizer}
	}
	return c
}

// waitsForGrant reports whether all that is wrong with a module is that it asks for what is not granted.
func waitsForGrant(err error) bool {
	var e *host.Error
	return errors.As(err, &e) && len(e.Missing) > 0
}

func validateCapabilities(capabilities []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, c := range capabilities {
		switch {
		case !abi.ValidGrant(c):
			errs = append(errs, field.Invalid(path.Index(i), c, fmt.Sprintf("must be %s<resource>, %[1]s<resource>.<group>, %[1]s*, %[1]s*.<group> or %s", abi.CapabilityLookupPrefix, abi.CapabilityAuthorize)))
		case seen[c]:
			errs = append(errs, field.Duplicate(path.Index(i), c))
		}
		seen[c] = true
	}
	return errs
}

// testObjects are what is looked up in a test.
func testObjects(test *v1alpha1.ModuleTest) (*lookup.Objects, error) {
	docs := make([]*document.Document, len(test.Objects))
	for i := range test.Objects {
		var err error
		if docs[i], err = document.Parse(test.Objects[i].Raw); err != nil {
			return nil, fmt.Errorf("object %d: %w", i, err)
		}
	}
	return lookup.NewObjects(docs...)
}
