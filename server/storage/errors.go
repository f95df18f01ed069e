package storage

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrTooMany is why a list is aborted that has met as many objects that cannot be read as its error names.
var ErrTooMany = errors.New("too many errors, the list is truncated")

// ErrorCode classes what a caller of storage can act on.
type ErrorCode int

// The codes, and in parentheses what the registry makes of them for a client.
const (
	// ErrCodeKeyNotFound (404): there is no such object.
	ErrCodeKeyNotFound ErrorCode = iota + 1
	// ErrCodeKeyExists (409 AlreadyExists): Create found an object.
	ErrCodeKeyExists
	// ErrCodeResourceVersionConflicts (409 Conflict): a precondition on the
	// resourceVersion did not hold.
	ErrCodeResourceVersionConflicts
	// ErrCodeInvalidObj (409 Conflict): a precondition on the uid did not hold.
	ErrCodeInvalidObj
	// ErrCodeUnreachable (503, Retry-After): the storage does not answer.
	ErrCodeUnreachable
	// ErrCodeTimeout (504): the storage did not answer in time; a write may have happened.
	ErrCodeTimeout
	// ErrCodeResourceVersionTooLarge (504 Timeout, cause ResourceVersionTooLarge,
	// Retry-After 1): the revision asked for is in the future.
	ErrCodeResourceVersionTooLarge
	// ErrCodeExpired (410 Expired): the revision or token asked for is compacted.
	// Continue may hold a token that goes on inconsistently.
	ErrCodeExpired
	// ErrCodeBadContinue (400): the continue token is not one of ours.
	ErrCodeBadContinue
	// ErrCodeBadResourceVersion (400): not a number.
	ErrCodeBadResourceVersion
	// ErrCodeTooLarge (413): the object is larger than the storage takes.
	ErrCodeTooLarge
	// ErrCodeNotReady (429, Retry-After as RetryAfter says, one second at least): a cache is being filled, or room made in a
	// full database.
	ErrCodeNotReady
	// ErrCodeCorruptObj (500): a stored object cannot be read.
	ErrCodeCorruptObj
	// ErrCodeNoSpace (507 mapped to 500 with a clear text): the database is full. The storage logs it: one line for many.
	ErrCodeNoSpace
	// ErrCodeInvalidKey (400): the key is outside the storage's prefix or is not
	// clean, as with a namespace "..".
	ErrCodeInvalidKey
)

// Error is an error that its caller can act on.
type Error struct {
	Code ErrorCode
	Key  string
	// Corrupt are the errors of the objects of a list that cannot be read, in the order of their keys, where
	// ErrCodeCorruptObj is about a list. Key is that of the first.
	Corrupt []*Error
	// Aborted is why such a list did not come to its end: ErrTooMany or an error about the next object. nil: it did.
	Aborted         error
	ResourceVersion uint64
	// Continue: see ErrCodeExpired.
	Continue string
	// RetryAfter: see ErrCodeNotReady.
	RetryAfter time.Duration
	Message    string
	// Err is the cause, where there is one.
	Err error
}

func (e *Error) Error() string {
	text := e.Message
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if e.Key == "" {
		return text
	}
	return fmt.Sprintf("key %q: %s", e.Key, text)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Causes returns what ErrCodeCorruptObj says in the details of a Status, as upstream says it of a list: one cause
// for each object that cannot be read, and one for what aborted the list.
func (e *Error) Causes() []metav1.StatusCause {
	corrupt := e.Corrupt
	if len(corrupt) == 0 {
		corrupt = []*Error{e}
	}
	var out []metav1.StatusCause
	for _, c := range corrupt {
		out = append(out, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: c.Key, Message: c.Error()})
	}
	switch {
	case errors.Is(e.Aborted, ErrTooMany):
		out = append(out, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: e.Aborted.Error()})
	case e.Aborted != nil:
		out = append(out, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Message: e.Aborted.Error()})
	}
	return out
}

// CorruptList returns the error of a list of objects that cannot be read, at least one, in the order of their keys.
// aborted: see Error.
func CorruptList(rows []*Error, aborted error) *Error {
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = row.Key
	}
	text := fmt.Sprintf("%d stored objects cannot be read: %s; of the first: %v", len(keys), strings.Join(keys, ", "), rows[0].Err)
	if aborted != nil {
		text += ": " + aborted.Error()
	}
	return &Error{Code: ErrCodeCorruptObj, Key: keys[0], Corrupt: rows, Aborted: aborted, Message: text, Err: rows[0].Err}
}

// CodeOf returns the code of err, 0 where it has none.
func CodeOf(err error) ErrorCode {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// IsNotFound reports whether err says that there is no such object.
func IsNotFound(err error) bool { return CodeOf(err) == ErrCodeKeyNotFound }
