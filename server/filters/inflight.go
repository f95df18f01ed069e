package filters

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/server/request"
)

// withMaxInFlight answers 429 when too many requests are being served. Watches, probes and
// administrators are not counted, so that an operator can always get in.
func withMaxInFlight(handler http.Handler, reads, writes int, metrics *Metrics) http.Handler {
	readers, writers := newLimit(reads), newLimit(writes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.InfoFrom(r.Context())
		if !ok || isLongRunning(info) || isProbe(info) {
			handler.ServeHTTP(w, r)
			return
		}
		limit, kind := writers, "mutating"
		switch info.Verb {
		case "get", "list", "watch", "head":
			limit, kind = readers, "readOnly"
		}
		if who, ok := request.UserFrom(r.Context()); ok && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
			limit = nil
		}
		if limit != nil {
			select {
			case limit <- struct{}{}:
				defer func() { <-limit }()
			default:
				metrics.rejected(kind)
				w.Header().Set("Retry-After", "1")
				reject(w, r, apierrors.NewTooManyRequests("the server has too many requests in flight; try again", 1))
				return
			}
		}
		metrics.inFlight(kind, 1)
		defer metrics.inFlight(kind, -1)
		handler.ServeHTTP(w, r)
	})
}

// isProbe reports whether a request asks for the server's health, as upstream's flow schema of that name.
func isProbe(info *request.Info) bool {
	return !info.IsResourceRequest && (info.Path == "/healthz" || info.Path == "/livez" || info.Path == "/readyz")
}

// newLimit returns a semaphore, nil for no limit.
func newLimit(n int) chan struct{} {
	if n < 0 {
		return nil
	}
	return make(chan struct{}, n)
}
