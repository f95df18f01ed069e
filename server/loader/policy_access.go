package loader

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// PolicyAccessConfig says whom a PolicyAccess asks.
type PolicyAccessConfig struct {
	Authorizer authorizer.Authorizer
	// Stored returns what stores a built-in resource.
	Stored func(group, resource string) any
}

// PolicyAccess returns the layer that lets only those bring params into admission who may read them: a denial may
// tell what a param says. It is for one of the resources of policies.
func PolicyAccess(cfg PolicyAccessConfig, gr schema.GroupResource) rest.Layer {
	return policyAccess{cfg: cfg, resource: gr}
}

type policyAccess struct {
	rest.NoHooks
	cfg      PolicyAccessConfig
	resource schema.GroupResource
	// given are policies that stand before the stored ones.
	given []*document.Document
}

// Name implements rest.Layer.
func (policyAccess) Name() string { return "policy-access" }

// Implements implements rest.Layer.
func (policyAccess) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate)
}

// Validate implements rest.Hooks.
func (g policyAccess) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	if holdsPolicies(g.resource) {
		return g.policy(ctx, obj)
	}
	return g.binding(ctx, obj)
}

// ValidateUpdate implements rest.Hooks. Who changes only metadata need not be able to read the params; who changes a rule
// or a message must: it may say what they are. (Upstream asks only when paramKind or paramRef change.)
func (g policyAccess) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	if obj.Get("spec").Equal(old.Get("spec")) {
		return nil, nil
	}
	return g.Validate(ctx, obj)
}

// policy asks for all objects of the kind.
func (g policyAccess) policy(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	kind := obj.Get("spec", "paramKind")
	if !kind.Exists() {
		return nil, nil
	}
	a := g.attributes(ctx, kind)
	if g.allows(ctx, a) {
		return nil, nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "paramKind"),
		fmt.Sprintf("user %s must have \"get\" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)",
			nameOf(a), kind.Get("kind").String(), kind.Get("apiVersion").String()))}, nil
}

// binding asks for the objects that are named. Of a policy that is not there yet, nothing is known: all is asked for.
func (g policyAccess) binding(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	ref := obj.Get("spec", "paramRef")
	if !ref.Exists() {
		return nil, nil
	}
	kind, err := g.kindOf(ctx, obj.Get("spec", "policyName").String())
	if err != nil {
		return nil, err
	}
	a := g.attributes(ctx, kind)
	a.Name = ref.Get("name").String()
	if namespace := ref.Get("namespace").String(); namespace != "" {
		a.Namespace = namespace
	}
	if ref.Get("selector").Exists() {
		a.Verb = "list"
	}
	if g.allows(ctx, a) {
		return nil, nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "paramRef"),
		fmt.Sprintf("user %s does not have %q permission on the object referenced by paramRef", nameOf(a), a.Verb))}, nil
}

func (g policyAccess) kindOf(ctx context.Context, name string) (document.Value, error) {
	from := policiesOf(g.resource)
	for _, obj := range g.given {
		if gr, ok := PolicyResourceOf(obj.Get("apiVersion").String(), obj.Get("kind").String()); ok && gr == from && rest.MetaOf(obj).Name() == name {
			return obj.Get("spec", "paramKind"), nil
		}
	}
	getter, ok := g.cfg.Stored(from.Group, from.Resource).(rest.Getter)
	if !ok {
		return document.Value{}, fmt.Errorf("%s cannot be read", from)
	}
	obj, err := getter.Get(ctx, name, &metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return document.Value{}, nil
	case err != nil:
		return document.Value{}, err
	}
	return obj.Get("spec", "paramKind"), nil
}

// attributes ask for get on the resource of a kind: on all where it is not known.
func (g policyAccess) attributes(ctx context.Context, kind document.Value) *authorizer.AttributesRecord {
	who, _ := request.UserFrom(ctx)
	a := &authorizer.AttributesRecord{User: who, Verb: "get", APIGroup: "*", APIVersion: "*", Resource: "*", ResourceRequest: true}
	catalog := rest.CatalogFrom(ctx)
	if !kind.Exists() || catalog == nil {
		return a
	}
	gvk := schema.FromAPIVersionAndKind(kind.Get("apiVersion").String(), kind.Get("kind").String())
	for _, r := range catalog.Resources() {
		if r.Group == gvk.Group && r.Kind == gvk.Kind && r.Version(gvk.Version) != nil {
			a.APIGroup, a.APIVersion, a.Resource = r.Group, gvk.Version, r.Name
			break
		}
	}
	return a
}

func (g policyAccess) allows(ctx context.Context, a *authorizer.AttributesRecord) bool {
	if a.User == nil {
		return true // not a request: the server itself
	}
	decision, _, err := g.cfg.Authorizer.Authorize(ctx, a)
	return err == nil && decision == authorizer.DecisionAllow
}

func nameOf(a *authorizer.AttributesRecord) string {
	if a.User == nil {
		return "unknown"
	}
	return a.User.GetName()
}
