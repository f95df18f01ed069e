package filters

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/request"
)

// The annotations of upstream that tell in an event why a request was let through, or not.
const (
	decisionAnnotation = "authorization.k8s.io/decision"
	reasonAnnotation   = "authorization.k8s.io/reason"
)

// withAuthorization asks whether the user may do what the request wants; 403 otherwise.
func withAuthorization(handler http.Handler, authz authorizer.Authorizer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		info, ok := request.InfoFrom(ctx)
		if !ok {
			reject(w, r, apierrors.NewInternalError(fmt.Errorf("no request info")))
			return
		}
		who, _ := request.UserFrom(ctx)
		attributes := attributesOf(info, who)
		decision, reason, err := authz.Authorize(ctx, attributes)
		if decision == authorizer.DecisionAllow {
			audit.AddAuditAnnotations(ctx, decisionAnnotation, "allow", reasonAnnotation, reason)
			handler.ServeHTTP(w, r)
			return
		}
		if err != nil && reason == "" {
			reason = err.Error()
		}
		audit.AddAuditAnnotations(ctx, decisionAnnotation, "forbid", reasonAnnotation, reason)
		reject(w, r, request.NewForbidden(attributes, reason))
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
