package endpoints

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// verbUnsafeDelete is what one must be allowed to do, beside delete, to delete what cannot be read.
const verbUnsafeDelete = "unsafe-delete-ignore-read-errors"

// deleteCorrupt serves DELETE with ignoreStoreReadErrorWithClusterBreakingPotential (KEP-3926): the object
// goes because it cannot be read. There is nothing that admission could see.
func (s *server) deleteCorrupt(ctx context.Context, w http.ResponseWriter, req *http.Request, sc *scope, opts *metav1.DeleteOptions) error {
	audit.AddAuditAnnotation(ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	deleter, ok := sc.storage.(rest.CorruptObjectDeleter)
	if !ok || sc.subresource() != "" {
		return apierrors.NewForbidden(sc.gvr.GroupResource(), sc.name, fmt.Errorf(
			"ignoreStoreReadErrorWithClusterBreakingPotential delete option is not allowed on a subresource or non-resource request"))
	}
	if err := s.authorizeUnsafeDelete(ctx, sc); err != nil {
		return err
	}
	if err := deleter.DeleteCorrupt(ctx, sc.name, opts); err != nil {
		return err
	}
	writeStatus(w, req, http.StatusOK, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: sc.name, Group: sc.gvr.Group, Kind: sc.gvr.Resource},
	})
	return nil
}

// authorizeUnsafeDelete asks for the verb of its own; without an authorizer it is refused.
func (s *server) authorizeUnsafeDelete(ctx context.Context, sc *scope) error {
	refused := func(why string) error {
		return apierrors.NewForbidden(sc.gvr.GroupResource(), sc.name, fmt.Errorf("not permitted to do %q, reason: %s", verbUnsafeDelete, why))
	}
	if s.Authorizer == nil {
		return refused("there is no authorizer")
	}
	who, _ := request.UserFrom(ctx)
	decision, reason, err := s.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User:            who,
		Verb:            verbUnsafeDelete,
		Namespace:       sc.namespace,
		Name:            sc.name,
		APIGroup:        sc.gvr.Group,
		APIVersion:      sc.gvr.Version,
		Resource:        sc.gvr.Resource,
		ResourceRequest: true,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return refused(err.Error())
	}
	return refused(reason)
}
