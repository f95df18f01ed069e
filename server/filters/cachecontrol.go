package filters

import "net/http"

// withCacheControl keeps answers out of shared caches. Upstream sets the same header.
func withCacheControl(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private")
		handler.ServeHTTP(w, r)
	})
}
