package filters

import (
	"bufio"
	"fmt"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/request"
)

// withAudit writes events of a request: when it has come, when a watch has begun, and when it is over. It stands between
// authentication and impersonation, so that an event names who asked. What is refused before is told by auditRefusal.
func withAudit(handler http.Handler, a *audit.Audit) http.Handler {
	if a == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.InfoFrom(r.Context())
		if !ok {
			handler.ServeHTTP(w, r)
			return
		}
		r, event := beginAudit(r, a, info)
		if event == nil {
			handler.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if !event.Received(ctx) {
			request.WriteError(w, apierrors.NewInternalError(fmt.Errorf("failed to store audit event")))
			return
		}
		announce := isLongRunning(info)
		defer func() {
			if cause := recover(); cause != nil {
				event.Panicked(ctx, fmt.Sprint(cause))
				panic(cause)
			}
			event.Complete(ctx, announce)
		}()
		handler.ServeHTTP(&auditWriter{ResponseWriter: w, request: r, event: event, announce: announce}, r)
	})
}

// beginAudit asks the policy about a request. The event is nil where it is not audited; otherwise it is in the context of
// the request that is returned.
func beginAudit(r *http.Request, a *audit.Audit, info *apirequest.RequestInfo) (*http.Request, *audit.Request) {
	who, _ := request.UserFrom(r.Context())
	ctx, event := a.Begin(r, attributesOf(info, who))
	if event == nil {
		return r, nil
	}
	return r.WithContext(ctx), event
}

// refuse answers a request that is refused before withAudit: one event tells of it.
func refuse(w http.ResponseWriter, r *http.Request, a *audit.Audit, err error) {
	if info, ok := request.InfoFrom(r.Context()); a != nil && ok {
		audited, event := beginAudit(r, a, info)
		if event != nil {
			w, r = &auditWriter{ResponseWriter: w, request: audited, event: event, announce: true}, audited
		}
	}
	reject(w, r, err)
}

// reject answers with the Status of err, and has it audited.
func reject(w http.ResponseWriter, r *http.Request, err error) {
	if event := audit.From(r.Context()); event != nil {
		event.Status(request.StatusOf(err))
	}
	request.WriteError(w, err)
}

// auditWriter tells the event of a request of the code of its answer, once.
type auditWriter struct {
	http.ResponseWriter
	request  *http.Request
	event    *audit.Request
	announce bool
	started  bool
}

func (w *auditWriter) start(code int) {
	if !w.started {
		w.started = true
		w.event.Started(w.request.Context(), code, w.announce)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *auditWriter) WriteHeader(code int) {
	w.start(code)
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *auditWriter) Write(p []byte) (int, error) {
	w.start(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *auditWriter) Flush() {
	w.start(http.StatusOK)
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack implements http.Hijacker: the request goes on in another protocol.
func (w *auditWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.start(http.StatusSwitchingProtocols)
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *auditWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
