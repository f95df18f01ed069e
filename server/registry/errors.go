package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// The texts are upstream's: clients and their tests look at some of them.
const (
	optimisticLockText = "the object has been modified; please apply your changes to the latest version and try again"

	expiredText = "The resourceVersion for the provided list is too old."

	expiredContinueText = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response " +
		"to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent " +
		"list - objects that were created, modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

// retryUnreachable is how many seconds a client waits for a storage that does not answer.
const retryUnreachable = 2

// failed makes an apierrors.APIStatus of what storage returned for a verb on an
// object; name is "" for a collection. nil stays nil, an APIStatus stays what it is.
func (s *Store) failed(verb, name string, err error) error {
	if err == nil || rest.IsStatus(err) {
		return err
	}
	gr := s.cfg.Resource
	var e *storage.Error
	if !errors.As(err, &e) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return apierrors.NewTimeoutError("request did not complete within its deadline", 0)
		case errors.Is(err, context.Canceled):
			return apierrors.NewTimeoutError("request was cancelled", 0)
		}
		return apierrors.NewInternalError(fmt.Errorf("%s %s: %w", verb, gr, err))
	}
	text := e.Message
	if text == "" {
		text = e.Error()
	}
	switch e.Code {
	case storage.ErrCodeKeyNotFound:
		return apierrors.NewNotFound(gr, name)
	case storage.ErrCodeKeyExists:
		return apierrors.NewAlreadyExists(gr, name)
	case storage.ErrCodeResourceVersionConflicts:
		if e.Message == "" {
			text = optimisticLockText
		}
		return apierrors.NewConflict(gr, name, errors.New(text))
	case storage.ErrCodeInvalidObj:
		return apierrors.NewConflict(gr, name, errors.New(text))
	case storage.ErrCodeUnreachable:
		out := apierrors.NewServiceUnavailable(fmt.Sprintf("storage of %s does not answer the %s: %s", gr, verb, text))
		out.ErrStatus.Details = &metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource, RetryAfterSeconds: retryUnreachable}
		return out
	case storage.ErrCodeTimeout:
		return apierrors.NewTimeoutError(text, 0)
	case storage.ErrCodeResourceVersionTooLarge:
		return tooLargeResourceVersion(e, text)
	case storage.ErrCodeExpired:
		return expired(e)
	case storage.ErrCodeBadContinue, storage.ErrCodeBadResourceVersion, storage.ErrCodeInvalidKey:
		return apierrors.NewBadRequest(text)
	case storage.ErrCodeTooLarge:
		return apierrors.NewRequestEntityTooLargeError(text)
	case storage.ErrCodeNotReady:
		if e.Message == "" {
			text = "storage is (re)initializing"
		}
		return apierrors.NewTooManyRequests(text, max(1, int(math.Ceil(e.RetryAfter.Seconds()))))
	case storage.ErrCodeCorruptObj:
		return s.unreadable(name, e)
	case storage.ErrCodeNoSpace:
		return request.Logged(statusError(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			fmt.Sprintf("storage has no space left for %s: %s", gr, text)))
	}
	return apierrors.NewInternalError(fmt.Errorf("%s %s: %w", verb, gr, err))
}

// unreadable says which objects cannot be read, in a cause for each. For a list that is what upstream says, with its name
// "list". Of one object upstream says InternalError: with the reason of a list a client knows that
// ignoreStoreReadErrorWithClusterBreakingPotential deletes it.
func (s *Store) unreadable(name string, e *storage.Error) error {
	gr := s.cfg.Resource
	text := fmt.Sprintf("stored object of %s cannot be read: %s", gr, e.Error())
	if len(e.Corrupt) > 0 {
		text, name = fmt.Sprintf("%s: %s", gr, e.Message), "list"
	}
	out := statusError(http.StatusInternalServerError, metav1.StatusReasonStoreReadError, text)
	out.ErrStatus.Details = &metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource, Name: name, Causes: e.Causes()}
	return out
}

func tooLargeResourceVersion(e *storage.Error, text string) error {
	if e.Message == "" {
		text = fmt.Sprintf("Too large resource version: %d", e.ResourceVersion)
	}
	out := apierrors.NewTimeoutError(text, 1)
	out.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return out
}

func expired(e *storage.Error) error {
	text := e.Message
	switch {
	case text != "":
	case e.Continue != "":
		text = expiredContinueText
	default:
		text = expiredText
	}
	out := apierrors.NewResourceExpired(text)
	out.ErrStatus.Continue = e.Continue
	return out
}

func statusError(code int32, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}
