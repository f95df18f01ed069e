package filters

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/request"
)

// withDeadline bounds every request but a watch, by timeout or a shorter ?timeout.
func withDeadline(handler http.Handler, timeout time.Duration, a *audit.Audit) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.InfoFrom(r.Context())
		if isLongRunning(info) {
			handler.ServeHTTP(w, r)
			return
		}
		bound := timeout
		if text := r.URL.Query().Get("timeout"); text != "" {
			asked, err := time.ParseDuration(text)
			if err != nil {
				refuse(w, r, a, apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err)))
				return
			}
			if asked > 0 && asked < bound {
				bound = asked
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), bound)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
