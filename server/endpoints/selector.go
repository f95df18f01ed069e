package endpoints

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	restful "github.com/emicklei/go-restful/v3"
)

// maxShapes bounds what a selector remembers. Requests that are meant have some fifty shapes.
const maxShapes = 1024

// selector selects routes as go-restful's CurlyRouter does, and remembers what it selected for the shape of a request:
// its method, and its path with a * for each token that no route spells out. The routes of this package depend on
// nothing else; the CurlyRouter sorts copies of all that match, which was a tenth of what a GET allocates.
type selector struct {
	inner restful.CurlyRouter
	words map[string]struct{} // tokens that a route spells out

	mu    sync.Mutex // of who adds
	known atomic.Pointer[map[string]selected]
}

type selected struct {
	service *restful.WebService
	route   *restful.Route
}

var _ restful.RouteSelector = (*selector)(nil)

// newSelector returns the selector of services, to which no route is added later.
func newSelector(services []*restful.WebService) *selector {
	s := &selector{words: map[string]struct{}{"": {}}}
	for _, ws := range services {
		for _, route := range ws.Routes() {
			for token := range strings.SplitSeq(route.Path, "/") {
				if !strings.HasPrefix(token, "{") {
					s.words[token] = struct{}{}
				}
			}
		}
	}
	s.known.Store(&map[string]selected{})
	return s
}

// SelectRoute implements restful.RouteSelector.
func (s *selector) SelectRoute(services []*restful.WebService, req *http.Request) (*restful.WebService, *restful.Route, error) {
	var buf [128]byte
	shape, ok := s.shape(buf[:0], req)
	if !ok {
		return s.inner.SelectRoute(services, req)
	}
	if found, ok := (*s.known.Load())[string(shape)]; ok {
		return found.service, found.route, nil
	}
	service, route, err := s.inner.SelectRoute(services, req)
	if err == nil {
		s.remember(string(shape), selected{service, route})
	}
	return service, route, err
}

// shape appends the shape of a request to dst; false if it is not worth to be remembered, or if a route takes the rest
// of such a path whole.
func (s *selector) shape(dst []byte, req *http.Request) ([]byte, bool) {
	path := strings.Trim(req.URL.Path, "/")
	if !strings.HasPrefix(path, "api/") && !strings.HasPrefix(path, "apis/") {
		return dst, false
	}
	dst = append(dst, req.Method...)
	for token := range strings.SplitSeq(path, "/") {
		dst = append(dst, '/')
		if _, ok := s.words[token]; ok {
			dst = append(dst, token...)
		} else {
			dst = append(dst, '*')
		}
		if len(dst) > 100 {
			return dst, false
		}
	}
	return dst, true
}

func (s *selector) remember(shape string, found selected) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := *s.known.Load()
	if len(known) >= maxShapes {
		return
	}
	known = maps.Clone(known)
	known[shape] = found
	s.known.Store(&known)
}
