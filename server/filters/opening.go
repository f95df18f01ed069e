package filters

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/server/request"
)

// withOpening lets a request in when open returns nil, which may wait until what decides on it is in force.
func withOpening(handler http.Handler, open func(context.Context, *request.Info, user.Info) error) http.Handler {
	if open == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, _ := request.InfoFrom(r.Context())
		who, _ := request.UserFrom(r.Context())
		if err := open(r.Context(), info, who); err != nil {
			reject(w, r, err)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
