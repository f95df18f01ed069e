package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	upstorage "k8s.io/apiserver/pkg/storage"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/value"
)

// stream is upstream's watch.Interface over a storage.Watcher.
type stream struct {
	adapter *adapter
	watcher storage.Watcher
	results chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

// resultBuffer is the size of the channel of upstream's etcd watches.
const resultBuffer = 100

func (a *adapter) stream(w storage.Watcher) *stream {
	s := &stream{adapter: a, watcher: w, results: make(chan watch.Event, resultBuffer), stopped: make(chan struct{})}
	go s.run()
	return s
}

// Stop implements watch.Interface.
func (s *stream) Stop() {
	s.once.Do(func() {
		close(s.stopped)
		s.watcher.Stop()
	})
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.results }

func (s *stream) run() {
	defer close(s.results)
	defer s.watcher.Stop()
	for {
		events, err := s.watcher.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			status := statusOf(err)
			s.send(watch.Event{Type: watch.Error, Object: &status})
			return
		}
		for _, e := range events {
			event, err := s.adapter.event(e)
			if err != nil {
				status := statusOf(err)
				event = watch.Event{Type: watch.Error, Object: &status}
			}
			if !s.send(event) || err != nil {
				return
			}
		}
	}
}

func (s *stream) send(e watch.Event) bool {
	select {
	case s.results <- e:
		return true
	default:
	}
	select {
	case s.results <- e:
		return true
	case <-s.stopped:
		return false
	}
}

func (a *adapter) event(e storage.Event) (watch.Event, error) {
	if e.Type == storage.Bookmark {
		pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: storage.FormatResourceVersion(e.Row.ResourceVersion)}}
		if e.InitialEventsEnd {
			pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		return watch.Event{Type: watch.Bookmark, Object: pod}, nil
	}
	if a.lean {
		return watch.Event{Type: watch.EventType(e.Type), Object: &example.Pod{}}, nil
	}
	pod, err := a.decode(e.Row.Value.Bytes())
	return watch.Event{Type: watch.EventType(e.Type), Object: pod}, err
}

// upstreamError returns an error of this server's storage as upstream's storage gives it.
func upstreamError(key string, err error) error {
	var e *storage.Error
	if !errors.As(err, &e) {
		return err
	}
	switch rv := int64(e.ResourceVersion); e.Code {
	case storage.ErrCodeKeyNotFound:
		return upstorage.NewKeyNotFoundError(key, rv)
	case storage.ErrCodeKeyExists:
		return upstorage.NewKeyExistsError(key, rv)
	case storage.ErrCodeInvalidObj, storage.ErrCodeResourceVersionConflicts:
		// Upstream's preconditions do not tell the two apart; both are 409 Conflict.
		return upstorage.NewInvalidObjError(key, e.Message)
	case storage.ErrCodeCorruptObj:
		// Upstream's storage, too, knows what is corrupt by the error.
		if len(e.Corrupt) > 0 && errors.Is(e, errCorrupt) {
			return corruptList(e)
		}
	case storage.ErrCodeUnreachable:
		var transformer *value.UnavailableError
		if errors.As(err, &transformer) {
			break // for upstream an object that is not transformed is one like any other
		}
		return upstorage.NewUnreachableError(key, rv)
	case storage.ErrCodeTimeout:
		return upstorage.NewTimeoutError(key, e.Message)
	case storage.ErrCodeResourceVersionTooLarge:
		return upstorage.NewTooLargeResourceVersionError(0, e.ResourceVersion, 1)
	case storage.ErrCodeExpired:
		expired := apierrors.NewResourceExpired(e.Message)
		expired.ErrStatus.Continue = e.Continue
		return expired
	case storage.ErrCodeBadContinue, storage.ErrCodeBadResourceVersion:
		return apierrors.NewBadRequest(e.Message)
	case storage.ErrCodeNotReady:
		return fmt.Errorf("%w: %w", upstorage.ErrStorageNotReady, e)
	}
	return upstorage.NewInternalError(e)
}

// corruptList returns the error of a list in which objects cannot be read as the registry says it, but for the
// root, which the keys of the suite do not have.
func corruptList(e *storage.Error) error {
	causes := e.Causes()
	for i := range causes {
		causes[i].Field = strings.TrimPrefix(causes[i].Field, root)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonStoreReadError, Message: e.Message, Details: &metav1.StatusDetails{Causes: causes}}}
}

// statusOf returns the error that ends a watch as a client sees it.
func statusOf(err error) metav1.Status {
	var e *storage.Error
	if errors.As(err, &e) {
		switch e.Code {
		case storage.ErrCodeExpired:
			return apierrors.NewResourceExpired(e.Message).ErrStatus
		case storage.ErrCodeCorruptObj:
			return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Reason: metav1.StatusReasonStoreReadError, Message: e.Error()}
		}
	}
	return apierrors.NewInternalError(err).ErrStatus
}
