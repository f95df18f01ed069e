package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// revoked are the capabilities that what is in force asks for and was granted, and is not granted any more.
func (m *loadedModule) revoked() []string {
	return slices.DeleteFunc(slices.Clone(m.asked), m.grants.have)
}

// failing says which calls of what is in force fail since then, "" if none do.
func (m *loadedModule) failing() string {
	revoked := m.revoked()
	if len(revoked) == 0 {
		return ""
	}
	for i, c := range revoked {
		revoked[i] = strconv.Quote(c)
	}
	return fmt.Sprintf("its calls that need %s fail", strings.Join(revoked, ", "))
}

// withoutGrantLocked has the condition of what calls a module and is in force say what that is not granted any more.
func (l *Loader) withoutGrantLocked(ready *metav1.Condition, module string) {
	s := l.modules[module]
	if s == nil || s.inForce == nil || ready.Status != metav1.ConditionTrue {
		return
	}
	if failing := s.inForce.failing(); failing != "" {
		ready.Status, ready.Reason = metav1.ConditionFalse, reasonCapabilityNotGranted
		ready.Message = bounded(fmt.Sprintf("this generation is in force, but module[%s] is not granted any more what it was: %s; to grant it again: %s",
			module, failing, host.GrantLine(append(slices.Clone(*s.grants.list.Load()), s.inForce.revoked()...))))
	}
}

// enqueueUsersLocked has the status of all that calls a module written.
func (l *Loader) enqueueUsersLocked(module string) {
	for _, s := range l.strategies {
		if usesModule(s.object, module) {
			l.enqueueStrategyStatus(s.object.Name)
		}
	}
	for _, s := range l.policies.policies {
		if s.weir != nil && s.weir.Spec.Wasm != nil && s.weir.Spec.Wasm.Module == module {
			l.enqueuePolicyStatus(s.weir.Name)
		}
	}
}

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
