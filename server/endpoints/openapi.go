package endpoints

import (
	"log/slog"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
)

type openAPIHandler struct {
	version string
	logger  *slog.Logger
}

func (h *openAPIHandler) serve(f http.HandlerFunc) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) { f(resp.ResponseWriter, req.Request) }
}
func (h *openAPIHandler) v2(w http.ResponseWriter, req *http.Request)      {}
func (h *openAPIHandler) v3Index(w http.ResponseWriter, req *http.Request) {}
func (h *openAPIHandler) v3(w http.ResponseWriter, req *http.Request)      {}
