package endpoints

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/request"
)

// verb serves one request of a resolved resource. The error it returns becomes the response.
type verb func(w http.ResponseWriter, req *http.Request, sc *scope) error

// newContainer builds the routes:
//
//	/api  /api/{version}  /apis  /apis/{group}  /apis/{group}/{version}        discovery
//	…/{version}/{resource}                                                       collection, all namespaces or cluster
//	…/{version}/{resource}/{name}[/{subresource}]                                object of the cluster
//	…/{version}/namespaces/{namespace}/{resource}[/{name}[/{subresource}]]       in a namespace
//	…/{version}/namespaces/{name}/status, …/finalize                             subresources of a namespace
//	…/{version}/watch/[namespaces/{namespace}/]{resource}[/{name}]               the old form of ?watch
//	/openapi/v2  /openapi/v3[/…]
func newContainer(s *server) http.Handler {
	c := restful.NewContainer()
	c.DoNotRecover(true) // the filter that recovers panics stands outside and answers as upstream
	c.ServiceErrorHandler(func(err restful.ServiceError, req *restful.Request, resp *restful.Response) {
		writeError(resp.ResponseWriter, req.Request, apierrors.NewGenericServerResponse(
			err.Code, methodVerb(req.Request.Method), schema.GroupResource{}, "", err.Message, 0, false))
	})

	disc := &discoveryHandler{serverAddress: s.ServerAddress}
	for _, prefix := range []string{"/api", "/apis"} {
		c.Add(s.webService(prefix, disc))
	}

	docs := &openAPIHandler{version: s.Version, logger: s.Logger}
	ws := newWebService("/openapi")
	ws.Route(ws.GET("/v2").To(docs.serve(docs.v2)))
	ws.Route(ws.GET("/v3").To(docs.serve(docs.v3Index)))
	ws.Route(ws.GET("/v3/{groupVersion:*}").To(docs.serve(docs.v3)))
	c.Add(ws)
	c.Router(newSelector(c.RegisteredWebServices()))
	// Not the container's own ServeHTTP: its http.ServeMux would redirect paths that
	// it finds unclean, and answer what it does not know in plain text.
	return http.HandlerFunc(c.Dispatch)
}

// newWebService leaves media types to this package: go-restful's own negotiation
// knows no fallbacks.
func newWebService(path string) *restful.WebService {
	return new(restful.WebService).Path(path).Produces("*/*").Consumes("*/*")
}

// webService holds everything below /api or /apis.
func (s *server) webService(prefix string, disc *discoveryHandler) *restful.WebService {
	ws := newWebService(prefix)
	version := "/{version}"
	if prefix == "/api" {
		ws.Route(ws.GET("/").To(disc.serve(disc.legacy)))
	} else {
		version = "/{group}/{version}"
		ws.Route(ws.GET("/").To(disc.serve(disc.groups)))
		ws.Route(ws.GET("/{group}").To(disc.serve(disc.group)))
	}
	ws.Route(ws.GET(version).To(disc.serve(disc.version)))

	collections := []string{version + "/{resource}", version + "/namespaces/{namespace}/{resource}"}
	for _, path := range collections {
		ws.Route(ws.GET(path).To(s.route(s.list)))
		ws.Route(ws.POST(path).To(s.route(s.create)))
		ws.Route(ws.DELETE(path).To(s.route(s.deleteCollection)))
	}
	objects := []string{version + "/{resource}/{name}", version + "/namespaces/{namespace}/{resource}/{name}"}
	for _, path := range objects {
		ws.Route(ws.GET(path).To(s.route(s.get)))
		ws.Route(ws.PUT(path).To(s.route(s.update)))
		ws.Route(ws.PATCH(path).To(s.route(s.patch)))
		ws.Route(ws.DELETE(path).To(s.route(s.delete)))
	}
	for _, path := range []string{"/watch/{resource}", "/watch/{resource}/{name}", "/watch/namespaces/{namespace}/{resource}", "/watch/namespaces/{namespace}/{resource}/{name}"} {
		ws.Route(ws.GET(version + path).To(s.route(s.watchPath)))
	}
	subresources := []string{
		version + "/{resource}/{name}/{subresource}",
		version + "/namespaces/{namespace}/{resource}/{name}/{subresource}",
	}
	for _, path := range subresources {
		ws.Route(ws.GET(path).To(s.route(s.get)))
		ws.Route(ws.POST(path).To(s.route(s.createNamed)))
		ws.Route(ws.PUT(path).To(s.route(s.update)))
		ws.Route(ws.PATCH(path).To(s.route(s.patch)))
	}
	// `namespaces/{name}/status` reads like a collection of `status` in a namespace;
	// request.Info knows these two as subresources, and more static tokens win here.
	for _, sub := range []string{"status", "finalize"} {
		path := version + "/namespaces/{name}/" + sub
		ws.Route(ws.GET(path).To(s.route(s.get)))
		ws.Route(ws.PUT(path).To(s.route(s.update)))
		ws.Route(ws.PATCH(path).To(s.route(s.patch)))
	}
	return ws
}

// route resolves the scope of a request and calls v.
func (s *server) route(v verb) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) {
		sc, err := newScope(req)
		if err == nil {
			request.MarkServed(req.Request.Context())
			sc.warnDeprecated(req.Request.Context())
			err = v(resp.ResponseWriter, req.Request, sc)
		}
		if err != nil {
			s.logInternal(req.Request, err)
			writeError(resp.ResponseWriter, req.Request, err)
		}
	}
}

// methodVerb is the verb in upstream's text for what no route matches.
func methodVerb(method string) string { return strings.ToLower(method) }
