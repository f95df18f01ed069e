package server

import (
	"net/http"
	"net/http/pprof"
	"strings"
)

// profilingPath is where the profiles of the process are, below it one path each, as in kube-apiserver. They are
// not for everybody: the filters authorize them as they do any path that is no resource.
const profilingPath = "/debug/pprof"

// serveProfile answers below profilingPath.
func serveProfile(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, profilingPath) {
	case "":
		// The names in the index are relative to a directory.
		http.Redirect(w, r, profilingPath+"/", http.StatusFound)
	case "/profile":
		pprof.Profile(w, r)
	case "/symbol":
		pprof.Symbol(w, r)
	case "/trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}
