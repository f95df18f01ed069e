package request

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusOf returns the Status that tells a client of err. An error that is no
// apierrors.APIStatus becomes a 500 that says what err says.
func StatusOf(err error) *metav1.Status {
	var status metav1.Status
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	} else {
		status = apierrors.NewInternalError(err).Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return &status
}

// Logged returns err as one that who answers with it need not log: it is in the log, or counted there, where many requests
// end with it for one reason.
func Logged(err error) error { return &logged{err} }

// IsLogged reports whether err is one that Logged has returned.
func IsLogged(err error) bool {
	var l *logged
	return errors.As(err, &l)
}

type logged struct{ error }

func (l *logged) Unwrap() error { return l.error }

// WriteError answers a request with the Status of err, as JSON, and a Retry-After header
// where the Status gives seconds.
func WriteError(w http.ResponseWriter, err error) {
	status := StatusOf(err)
	body, encodeErr := json.Marshal(status)
	if encodeErr != nil { // a Status holds nothing that cannot be encoded
		http.Error(w, status.Message, int(status.Code))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}
