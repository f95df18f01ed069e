package server

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/admission"
)

// forExpressions is the variable authorizer of the expressions of a policy.
func (a *access) forExpressions(of *admission.Attributes) any {
	if of.User == nil {
		return nil
	}
	return cel.NewAuthorizer(of.User, a.authorizer, requestResource{of})
}

// requestResource is what authorizer.requestResource is about.
type requestResource struct{ of *admission.Attributes }

var _ cel.Resource = requestResource{}

// GetName implements cel.Resource.
func (r requestResource) GetName() string { return r.of.Name }

// GetNamespace implements cel.Resource.
func (r requestResource) GetNamespace() string { return r.of.Namespace }

// GetResource implements cel.Resource.
func (r requestResource) GetResource() schema.GroupVersionResource { return r.of.Resource }

// GetSubresource implements cel.Resource.
func (r requestResource) GetSubresource() string { return r.of.Subresource }
