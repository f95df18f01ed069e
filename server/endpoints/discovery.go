package endpoints

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	restful "github.com/emicklei/go-restful/v3"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/endpoints/discovery"
	"weir.dev/weir/server/rest"
)

// discoveryMediaTypes offers the aggregated form beside the plain one.
type discoveryMediaTypes struct{ plainMediaTypes }

func (discoveryMediaTypes) converts(_ string, gvk schema.GroupVersionKind) bool {
	return gvk == apidiscovery.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")
}

// discoveryHandler serves /api, /apis and the group versions below. What it says
// of a catalog is derived once for its generation.
type discoveryHandler struct {
	serverAddress string
	cached        atomic.Pointer[discoveryCache]
}

type discoveryCache struct {
	generation uint64
	index      *discovery.Index
	// core and groups are the aggregated forms, encoded.
	core, groups tagged
}

// tagged is an encoded value and its ETag.
type tagged struct {
	raw  []byte
	etag string
}

func newTagged(value any) (tagged, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return tagged{}, err
	}
	return tagged{raw: raw, etag: etagOf(raw)}, nil
}

func etagOf(raw []byte) string { return strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(raw))) }

// of returns what is known of the catalog pinned to the request.
func (h *discoveryHandler) of(req *http.Request) (*discoveryCache, error) {
	catalog := rest.CatalogFrom(req.Context())
	if catalog == nil {
		return nil, errNoCatalog()
	}
	generation := catalog.Generation()
	if c := h.cached.Load(); c != nil && c.generation == generation {
		return c, nil
	}
	c := &discoveryCache{generation: generation, index: discovery.New(catalog)}
	var err error
	if c.core, err = newTagged(c.index.CoreDiscovery); err != nil {
		return nil, err
	}
	if c.groups, err = newTagged(c.index.GroupDiscovery); err != nil {
		return nil, err
	}
	// An older request must not replace what newer ones use.
	for {
		old := h.cached.Load()
		if old != nil && old.generation >= generation {
			return c, nil
		}
		if h.cached.CompareAndSwap(old, c) {
			return c, nil
		}
	}
}

// serve runs f with what is known of the request's catalog.
func (h *discoveryHandler) serve(f func(w http.ResponseWriter, req *restful.Request, c *discoveryCache)) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) {
		c, err := h.of(req.Request)
		if err != nil {
			writeError(resp.ResponseWriter, req.Request, err)
			return
		}
		f(resp.ResponseWriter, req, c)
	}
}

// legacy serves /api.
func (h *discoveryHandler) legacy(w http.ResponseWriter, req *restful.Request, c *discoveryCache) {
	if writeAggregated(w, req.Request, c.core) {
		return
	}
	address := h.serverAddress
	if address == "" {
		address = req.Request.Host
		if local, ok := req.Request.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			address = local.String()
		}
	}
	writeMeta(w, req.Request, &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: c.index.Core,
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "0.0.0.0/0", ServerAddress: address},
		},
	})
}

// groups serves /apis.
func (h *discoveryHandler) groups(w http.ResponseWriter, req *restful.Request, c *discoveryCache) {
	if writeAggregated(w, req.Request, c.groups) {
		return
	}
	writeMeta(w, req.Request, &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups:   c.index.Groups,
	})
}

// group serves /apis/{group}.
func (h *discoveryHandler) group(w http.ResponseWriter, req *restful.Request, c *discoveryCache) {
	group := c.index.Group(req.PathParameter("group"))
	if group == nil {
		writeError(w, req.Request, newRouteNotFound(req.Request, schema.GroupResource{}))
		return
	}
	writeMeta(w, req.Request, group)
}

// version serves /api/{version} and /apis/{group}/{version}.
func (h *discoveryHandler) version(w http.ResponseWriter, req *restful.Request, c *discoveryCache) {
	list := c.index.Resources(schema.GroupVersion{Group: req.PathParameter("group"), Version: req.PathParameter("version")})
	if list == nil {
		writeError(w, req.Request, newRouteNotFound(req.Request, schema.GroupResource{}))
		return
	}
	writeMeta(w, req.Request, list)
}

// writeAggregated answers with t where the client asks for the aggregated form.
func writeAggregated(w http.ResponseWriter, req *http.Request, t tagged) bool {
	out, ok := negotiate(req, discoveryMediaTypes{})
	if !ok || out.convert == nil {
		return false
	}
	header := w.Header()
	header.Set("ETag", t.etag)
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "public")
	if req.Header.Get("If-None-Match") == t.etag {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	out.contentType = fmt.Sprintf("%s;g=%s;v=%s;as=%s", out.mediaType, out.convert.Group, out.convert.Version, out.convert.Kind)
	writeAnswer(w, req, out, http.StatusOK, [][]byte{t.raw})
	return true
}
