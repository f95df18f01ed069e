package filters

import (
	"context"
	"net/http"
	"sync"

	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// withSnapshot pins what is in force to the request, to its end. A watch lets go earlier, by rest.Release.
func withSnapshot(handler http.Handler, pin func(context.Context) (context.Context, func())) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, release := pin(r.Context())
		info, _ := request.InfoFrom(r.Context())
		if isLongRunning(info) {
			release = sync.OnceFunc(release)
			ctx = rest.WithRelease(ctx, release)
		}
		defer release()
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
