package server

import (
	"encoding/json"
	"net/http"
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/request"
)

// newMux routes what the endpoints serve and what stands beside them: health, metrics, version and the index.
func newMux(api http.Handler, metrics http.Handler, checks ...*health) *http.ServeMux {
	mux := http.NewServeMux()
	paths := []string{"/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"}
	for _, prefix := range []string{"/api", "/apis", "/openapi/v2", "/openapi/v3"} {
		mux.Handle(prefix, api)
		mux.Handle(prefix+"/", api)
	}
	for _, h := range checks {
		h.install(mux)
		paths = append(paths, h.path)
		for _, c := range h.checks {
			paths = append(paths, h.path+"/"+c.name)
		}
	}
	mux.Handle("/metrics", metrics)
	mux.HandleFunc("/version", serveVersion)
	mux.HandleFunc("/version/", serveVersion)
	sort.Strings(paths)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			request.WriteError(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "",
				"the server could not find the requested resource", 0, true))
			return
		}
		body, err := json.MarshalIndent(map[string][]string{"paths": paths}, "", "  ")
		if err != nil {
			request.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n'))
	})
	return mux
}
