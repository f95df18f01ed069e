package loader

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	path := field.NewPath("spec", "capabilities")
	var errs field.ErrorList
	for i, capability := range obj.Get("spec", "capabilities").Elements() {
		for _, a := range needed(capability.String()) {
			a.User, a.APIVersion, a.ResourceRequest = who, "*", true
			decision, _, err := g.authorizer.Authorize(ctx, a)
			if err == nil && decision == authorizer.DecisionAllow {
				continue
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			errs = append(errs, field.Forbidden(path.Index(i), fmt.Sprintf("user %s may not grant it without permission to %s %s in all namespaces",
				who.GetName(), a.Verb, spelled(a.Resource, a.APIGroup))))
			break
		}
	}
	return errs, nil
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
