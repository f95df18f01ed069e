package filters

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/request"
)

// withRequestInfo parses path and query once.
func withRequestInfo(handler http.Handler, resolver apirequest.RequestInfoResolver) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := resolver.NewRequestInfo(r)
		if err != nil {
			request.WriteError(w, apierrors.NewBadRequest("the request cannot be understood: "+err.Error()))
			return
		}
		ctx := request.WithInfo(r.Context(), info)
		if info.Namespace != "" {
			ctx = request.WithNamespace(ctx, info.Namespace)
		}
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
