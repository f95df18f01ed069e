package filters

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		request.WriteError(w, request.NewForbidden(attributes, reason))
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
