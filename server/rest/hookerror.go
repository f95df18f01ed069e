package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// HookError says which layer of which strategy could not do its work: a guest trapped or a program
// exceeded its budget. It is the server's fault and an APIStatus: 500, or 504 when the
// request's deadline passed.
type HookError struct {
	Resource schema.GroupResource
	Layer    string
	Hook     string
	Err      error
}

var _ apierrors.APIStatus = (*HookError)(nil)

func (e *HookError) Error() string {
	return fmt.Sprintf("strategy %s layer %s hook %s: %v", e.Resource, e.Layer, e.Hook, e.Err)
}

// Unwrap returns the cause.
func (e *HookError) Unwrap() error { return e.Err }

// Status implements apierrors.APIStatus.
func (e *HookError) Status() metav1.Status {
	code, reason := int32(http.StatusInternalServerError), metav1.StatusReasonInternalError
	if errors.Is(e.Err, context.DeadlineExceeded) {
		code, reason = http.StatusGatewayTimeout, metav1.StatusReasonTimeout
	}
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: e.Error(),
		Details: &metav1.StatusDetails{
			Group:  e.Resource.Group,
			Kind:   e.Resource.Resource,
			Causes: []metav1.StatusCause{{Message: e.Err.Error(), Field: e.Layer}},
		},
	}
}
