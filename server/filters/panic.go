package filters

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/server/request"
)

// withPanicRecovery turns a panic into a 500 where nothing has been written yet, and logs it. A stream
// that has begun is cut off.
func withPanicRecovery(handler http.Handler, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := &headerRecorder{ResponseWriter: w}
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			logger.ErrorContext(r.Context(), "request panicked", "method", r.Method, "path", r.URL.Path,
				"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			if recorder.written {
				panic(http.ErrAbortHandler)
			}
			request.WriteError(w, apierrors.NewInternalError(fmt.Errorf("the server failed while it served %s %s; its log says why", r.Method, r.URL.Path)))
		}()
		handler.ServeHTTP(recorder, r)
	})
}

// headerRecorder notes whether an answer has begun, and its code.
type headerRecorder struct {
	http.ResponseWriter
	written bool
	code    int
}

func (r *headerRecorder) WriteHeader(code int) {
	if !r.written {
		r.written, r.code = true, code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *headerRecorder) Write(p []byte) (int, error) {
	if !r.written {
		r.written, r.code = true, http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (r *headerRecorder) Flush() {
	if !r.written {
		r.written, r.code = true, http.StatusOK
	}
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack implements http.Hijacker: the request goes on in another protocol.
func (r *headerRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && !r.written {
		r.written, r.code = true, http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *headerRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
