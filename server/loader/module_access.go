package loader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// ModuleAccess returns the layer that lets only those grant a module what it may look up or ask who have it
// themselves: what a module has seen, its messages may tell. The same goes for who changes the code of a module that
// was granted something.
func ModuleAccess(a authorizer.Authorizer) rest.Layer { return moduleAccess{authorizer: a} }

type moduleAccess struct {
	rest.NoHooks
	authorizer authorizer.Authorizer
}

// Name implements rest.Layer.
func (moduleAccess) Name() string { return "module-access" }

// Implements implements rest.Layer.
func (moduleAccess) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate)
}

// Validate implements rest.Hooks.
func (g moduleAccess) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	who, ok := request.UserFrom(ctx)
	if !ok || who == nil {
		return nil, nil // not a request: the server itself
	}
	errs, err := g.secrets(ctx, who, obj)
	if err != nil {
		return nil, err
	}
	path := field.NewPath("spec", "capabilities")
	for i, capability := range obj.Get("spec", "capabilities").Elements() {
		for _, a := range needed(capability.String()) {
			a.User, a.APIVersion, a.ResourceRequest = who, "*", true
			allowed, err := g.allows(ctx, a)
			if err != nil {
				return nil, err
			}
			if allowed {
				continue
			}
			errs = append(errs, field.Forbidden(path.Index(i), fmt.Sprintf("user %s may not grant it without permission to %s %s in all namespaces",
				who.GetName(), a.Verb, spelled(a.Resource, a.APIGroup))))
			break
		}
	}
	return errs, nil
}

// secrets asks for those that a module is read from, or verified with: status says what is wrong with them.
func (g moduleAccess) secrets(ctx context.Context, who user.Info, obj *document.Document) (field.ErrorList, error) {
	var errs field.ErrorList
	ask := func(ref document.Value, path *field.Path) error {
		if !ref.Exists() {
			return nil
		}
		a := &authorizer.AttributesRecord{User: who, Verb: "get", APIVersion: "v1", Resource: "secrets",
			Namespace: ref.Get("namespace").String(), Name: ref.Get("name").String(), ResourceRequest: true}
		allowed, err := g.allows(ctx, a)
		if err == nil && !allowed {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("user %s may not name it without permission to get the secret %s/%s", who.GetName(), a.Namespace, a.Name)))
		}
		return err
	}
	spec, path := obj.Get("spec"), field.NewPath("spec")
	failed := errors.Join(
		ask(spec.Get("source", "secretRef"), path.Child("source", "secretRef")),
		ask(spec.Get("source", "oci", "pullSecretRef"), path.Child("source", "oci", "pullSecretRef")),
		ask(spec.Get("verify", "publicKeyFrom", "secretRef"), path.Child("verify", "publicKeyFrom", "secretRef")),
	)
	return errs, failed
}

func (g moduleAccess) allows(ctx context.Context, a authorizer.Attributes) (bool, error) {
	decision, _, err := g.authorizer.Authorize(ctx, a)
	if err == nil && decision == authorizer.DecisionAllow {
		return true, nil
	}
	return false, context.Cause(ctx) // nil: it is not allowed
}

// ValidateUpdate implements rest.Hooks. Who changes nothing of what runs need not have what it may do.
func (g moduleAccess) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	if obj.Get("spec").Equal(old.Get("spec")) {
		return nil, nil
	}
	return g.Validate(ctx, obj)
}

// needed is what a user must be allowed to grant a capability. What is none is refused by the guard.
func needed(capability string) []*authorizer.AttributesRecord {
	if capability == abi.CapabilityAuthorize {
		return []*authorizer.AttributesRecord{{Verb: "create", APIGroup: authorizationv1.GroupName, Resource: "subjectaccessreviews"}}
	}
	group, resource, ok := abi.ParseLookup(capability)
	if !ok {
		return nil
	}
	return []*authorizer.AttributesRecord{
		{Verb: "get", APIGroup: group, Resource: resource},
		{Verb: "list", APIGroup: group, Resource: resource},
	}
}

// spelled is how a resource is named in a capability.
func spelled(resource, group string) string {
	if group == "" || resource == "*" && group == "*" {
		return resource
	}
	return strings.Join([]string{resource, group}, ".")
}
