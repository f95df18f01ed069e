package request

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// NewForbidden words the refusal of an authorizer as upstream does: clients and people know the text.
func NewForbidden(a authorizer.Attributes, reason string) error {
	name := ""
	if a.GetUser() != nil {
		name = a.GetUser().GetName()
	}
	if reason != "" {
		reason = ": " + reason
	}
	if !a.IsResourceRequest() {
		text := fmt.Sprintf("User %q cannot %s path %q%s", name, a.GetVerb(), a.GetPath(), reason)
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(text))
	}
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	where := "at the cluster scope"
	if a.GetNamespace() != "" {
		where = fmt.Sprintf("in the namespace %q", a.GetNamespace())
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s%s", name, a.GetVerb(), resource, a.GetAPIGroup(), where, reason)
	return apierrors.NewForbidden(schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}, a.GetName(), errors.New(text))
}
