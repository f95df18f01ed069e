package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/request"
)

// statusOf returns the Status that tells a client of err.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	switch {
	case errors.As(err, &known):
	case errors.Is(err, context.DeadlineExceeded):
		err = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, context.Canceled):
		err = apierrors.NewTimeoutError("request was canceled", 0)
	}
	return request.StatusOf(err)
}

// writeError answers with the Status of err. It is the only place that does.
func writeError(w http.ResponseWriter, req *http.Request, err error) {
	status := statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	if status.Code == http.StatusNoContent {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	writeStatus(w, req, int(status.Code), status)
}

// writeStatus answers with a Status as it is. What the client accepts does not
// hide it: where that is neither JSON nor YAML, JSON is written.
func writeStatus(w http.ResponseWriter, req *http.Request, code int, status *metav1.Status) {
	out, ok := negotiate(req, plainMediaTypes{})
	if !ok {
		out = output{mediaType: mediaTypeJSON, pretty: true}
	}
	audit.From(req.Context()).Status(status)
	raw, err := json.Marshal(status)
	if err != nil { // a Status has nothing that does not marshal
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBytes(w, req, out, code, raw)
}

// statusError is an error with a Status that apierrors has no constructor for.
type statusError struct{ status metav1.Status }

var _ apierrors.APIStatus = statusError{}

func (e statusError) Error() string         { return e.status.Message }
func (e statusError) Status() metav1.Status { return e.status }

func newStatusError(code int, reason metav1.StatusReason, format string, args ...any) error {
	return statusError{metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    int32(code),
		Reason:  reason,
		Message: fmt.Sprintf(format, args...),
	}}
}

func newNotAcceptable(accepted []string) error {
	return newStatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: %s", strings.Join(accepted, ", "))
}

func newUnsupportedMediaType(accepted []string) error {
	return newStatusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: %s", strings.Join(accepted, ", "))
}

// logInternal logs what is the server's fault, unless it is in the log.
func (s *server) logInternal(req *http.Request, err error) {
	if code := statusOf(err).Code; code == http.StatusInternalServerError && !request.IsLogged(err) {
		s.Logger.ErrorContext(req.Context(), "request failed", "method", req.Method, "path", req.URL.Path, "err", err)
	}
}
