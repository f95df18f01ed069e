package endpoints

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
)

// routesOf returns the services of a container that serves nothing.
func routesOf(t testing.TB) []*restful.WebService {
	t.Helper()
	s := &server{}
	docs := newWebService("/openapi")
	docs.Route(docs.GET("/v3/{groupVersion:*}").To(func(*restful.Request, *restful.Response) {}))
	return []*restful.WebService{s.webService("/api", &discoveryHandler{}), s.webService("/apis", &discoveryHandler{}), docs}
}

// TestSelector: all paths of some tokens, with each method, get the route that the CurlyRouter gives them, the first
// time and again.
func TestSelector(t *testing.T) {
	services := routesOf(t)
	s := newSelector(services)
	tokens := []string{"namespaces", "watch", "status", "finalize", "a", "b.example.com", "*", "{x}", "", "apis"}
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	paths := []string{"/", "/api", "/apis", "/openapi/v3", "/openapi/v3/apis/a/v1", "/apis/" + strings.Repeat("x/", 60), "//apis//a/v1"}
	state := uint32(1)
	next := func(n int) int { state = state*1664525 + 1013904223; return int(state>>8) % n }
	for range 4000 {
		path := []string{"/api", "/apis"}[next(2)]
		for range next(9) {
			path += "/" + tokens[next(len(tokens))]
		}
		paths = append(paths, path)
	}
	for range 2 {
		for i, path := range paths {
			req := &http.Request{Method: methods[i%len(methods)], URL: httptest.NewRequest(http.MethodGet, "/", nil).URL, Header: http.Header{}}
			req.URL.Path = path
			wantService, want, wantErr := restful.CurlyRouter{}.SelectRoute(services, req)
			service, got, err := s.SelectRoute(services, req)
			if service != wantService || fmt.Sprint(err) != fmt.Sprint(wantErr) || (got == nil) != (want == nil) ||
				got != nil && (got.Path != want.Path || got.Method != want.Method) {
				t.Fatalf("%s %s: %v, %v, want %v, %v", req.Method, path, got, err, want, wantErr)
			}
		}
	}
	if n := len(*s.known.Load()); n < 50 || n > maxShapes {
		t.Errorf("%d shapes are known", n)
	}
}

// TestSelectorBounded: no client can make it remember without end.
func TestSelectorBounded(t *testing.T) {
	s := newSelector(routesOf(t))
	for i := range 2 * maxShapes {
		s.remember(fmt.Sprint(i), selected{})
	}
	if n := len(*s.known.Load()); n != maxShapes {
		t.Errorf("%d shapes are known, want %d", n, maxShapes)
	}
}

func TestSelectorAllocations(t *testing.T) {
	services := routesOf(t)
	s := newSelector(services)
	req := httptest.NewRequest(http.MethodGet, "/apis/apps/v1/namespaces/default/deployments/web", nil)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := s.SelectRoute(services, req); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a selection, want 0", n)
	}
	if known := slices.Collect(maps.Keys(*s.known.Load())); len(known) != 1 || known[0] != "GET/apis/*/*/namespaces/*/*/*" {
		t.Errorf("known %q", known)
	}
}
