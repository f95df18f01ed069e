package filters

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/request"
)

// withAuthorization asks whether the user may do what the request wants; 403 otherwise.
func withAuthorization(handler http.Handler, authz authorizer.Authorizer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		info, ok := request.InfoFrom(ctx)
		if !ok {
			request.WriteError(w, apierrors.NewInternalError(fmt.Errorf("no request info")))
			return
		}
		who, _ := request.UserFrom(ctx)
		attributes := attributesOf(info, who)
		decision, reason, err := authz.Authorize(ctx, attributes)
		if decision == authorizer.DecisionAllow {
			handler.ServeHTTP(w, r)
			return
		}
		if err != nil && reason == "" {
			reason = err.Error()
		}
		request.WriteError(w, forbidden(attributes, reason))
	})
}

// attributesOf returns what an authorizer is asked.
func attributesOf(info *request.Info, who user.Info) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User:            who,
		Verb:            info.Verb,
		Namespace:       info.Namespace,
		APIGroup:        info.APIGroup,
		APIVersion:      info.APIVersion,
		Resource:        info.Resource,
		Subresource:     info.Subresource,
		Name:            info.Name,
		ResourceRequest: info.IsResourceRequest,
		Path:            info.Path,
	}
}

// forbidden words a refusal as upstream does: clients and people know the text.
func forbidden(a authorizer.AttributesRecord, reason string) error {
	name := ""
	if a.User != nil {
		name = a.User.GetName()
	}
	if !a.ResourceRequest {
		text := fmt.Sprintf("User %q cannot %s path %q", name, a.Verb, a.Path)
		if reason != "" {
			text += ": " + reason
		}
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("%s", text))
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q", name, a.Verb, resource, a.APIGroup)
	if a.Namespace != "" {
		text += fmt.Sprintf(" in the namespace %q", a.Namespace)
	} else {
		text += " at the cluster scope"
	}
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}, a.Name, fmt.Errorf("%s", text))
}
