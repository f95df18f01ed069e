package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestProfiling(t *testing.T) {
	tests := []struct {
		name, path string
		off        bool
		code       int
	}{
		{name: "the index", path: "/debug/pprof/", code: http.StatusOK},
		{name: "to the index", path: "/debug/pprof", code: http.StatusFound},
		{name: "a profile", path: "/debug/pprof/heap", code: http.StatusOK},
		{name: "no such profile", path: "/debug/pprof/nothing", code: http.StatusNotFound},
		{name: "the command line may hold secrets", path: "/debug/pprof/cmdline", code: http.StatusNotFound},
		{name: "beside it", path: "/debug/pprofs", code: http.StatusNotFound},
		{name: "switched off", path: "/debug/pprof/", off: true, code: http.StatusNotFound},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m, err := newMux(http.NotFoundHandler(), http.NotFoundHandler())
			if err != nil {
				t.Fatal(err)
			}
			m.profiling = !tc.off
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.path, nil))
			if w.Code != tc.code {
				t.Errorf("%s: %d, want %d", tc.path, w.Code, tc.code)
			}
		})
	}
}
