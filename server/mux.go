package server

import (
	"encoding/json"
	"net/http"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/request"
)

// mux routes what the endpoints serve and what stands beside them: health, metrics, version and
// the index. It takes paths as they are: http.ServeMux would answer an unclean one with a
// redirect, which no API client expects.
type mux struct {
	api   http.Handler
	exact map[string]http.Handler
	index []byte
	// profiling serves the profiles of the process.
	profiling bool
	// impact answers those who ask for a PolicyImpact as a stream.
	impact http.Handler
}

func newMux(api, metrics http.Handler, checks ...*health) (*mux, error) {
	m := &mux{api: api, exact: map[string]http.Handler{}}
	version := http.HandlerFunc(serveVersion)
	m.exact["/version"], m.exact["/version/"], m.exact["/metrics"] = version, version, metrics
	paths := []string{"/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"}
	for _, h := range checks {
		for path, handler := range h.handlers() {
			m.exact[path] = handler
			paths = append(paths, path)
		}
	}
	sort.Strings(paths)
	index, err := json.MarshalIndent(map[string][]string{"paths": paths}, "", "  ")
	m.index = append(index, '\n')
	return m, err
}

// ServeHTTP implements http.Handler.
func (m *mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if m.impact != nil && wantsImpactLines(r) {
		m.impact.ServeHTTP(w, r)
		return
	}
	for _, prefix := range []string{"/api", "/apis", "/openapi/v2", "/openapi/v3"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && (rest == "" || rest[0] == '/') {
			m.api.ServeHTTP(w, r)
			return
		}
	}
	if handler, ok := m.exact[path]; ok {
		handler.ServeHTTP(w, r)
		return
	}
	if rest, ok := strings.CutPrefix(path, profilingPath); ok && m.profiling && (rest == "" || rest[0] == '/') {
		serveProfile(w, r)
		return
	}
	if path == "/" || path == "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(m.index) // a client that is gone needs no answer
		return
	}
	request.WriteError(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "",
		"the server could not find the requested resource", 0, true))
}
