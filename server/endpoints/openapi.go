package endpoints

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/endpoints/openapi"
	"weir.dev/weir/server/rest"
)

// openAPIMediaTypes offers JSON and the protobuf form of a version of OpenAPI, which
// older clients name with an @.
type openAPIMediaTypes struct{ version string }

func (o openAPIMediaTypes) mediaTypes() []string {
	return []string{
		mediaTypeJSON,
		"application/com.github.proto-openapi.spec." + o.version + ".v1.0+protobuf",
		"application/com.github.proto-openapi.spec." + o.version + "@v1.0+protobuf",
	}
}

func (openAPIMediaTypes) converts(string, schema.GroupVersionKind) bool { return false }

// openAPIHandler serves /openapi. Documents are built when they are asked for, and
// again only when a version of a resource in them is another one.
type openAPIHandler struct {
	version string
	logger  *slog.Logger

	mu     sync.Mutex
	latest *openAPIDocuments // guarded by mu
}

// openAPIDocuments are those of one generation of the catalog.
type openAPIDocuments struct {
	generation uint64
	// v3 by openapi.Path.
	v3    map[string]*openAPIDocument
	index func() (tagged, error)
	v2    *openAPIDocument
}

// openAPIDocument is one document in both forms, each made once.
type openAPIDocument struct {
	parts    []openapi.Part
	json     func() (tagged, error)
	protobuf func() ([]byte, error)
}

// newDocument returns the document that build makes of parts. An error of one
// kind's schema is logged; the document is served without it.
func (h *openAPIHandler) newDocument(parts []openapi.Part, build func([]openapi.Part, string) ([]byte, error), toProtobuf func([]byte) (proto.Message, error)) *openAPIDocument {
	d := &openAPIDocument{parts: parts}
	d.json = sync.OnceValues(func() (tagged, error) {
		raw, err := build(parts, h.version)
		if err != nil && raw != nil {
			h.logger.Warn("openapi document is incomplete", "err", err)
			err = nil
		}
		return tagged{raw: raw, etag: etagOf(raw)}, err
	})
	d.protobuf = sync.OnceValues(func() ([]byte, error) {
		t, err := d.json()
		if err != nil {
			return nil, err
		}
		message, err := toProtobuf(t.raw)
		if err != nil {
			return nil, err
		}
		return proto.MarshalOptions{Deterministic: true}.Marshal(message)
	})
	return d
}

func parseV3(raw []byte) (proto.Message, error) { return openapiv3.ParseDocument(raw) }
func parseV2(raw []byte) (proto.Message, error) { return openapiv2.ParseDocument(raw) }

// of returns the documents of the catalog.
func (h *openAPIHandler) of(catalog rest.Catalog) *openAPIDocuments {
	generation := catalog.Generation()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest != nil && h.latest.generation == generation {
		return h.latest
	}
	docs := &openAPIDocuments{generation: generation, v3: map[string]*openAPIDocument{}}
	var all []openapi.Part
	for path, parts := range openapi.Parts(catalog) {
		all = append(all, parts...)
		if h.latest != nil {
			if old := h.latest.v3[path]; old != nil && slices.Equal(old.parts, parts) {
				docs.v3[path] = old
				continue
			}
		}
		docs.v3[path] = h.newDocument(parts, openapi.V3, parseV3)
	}
	slices.SortFunc(all, func(a, b openapi.Part) int {
		return strings.Compare(a.Resource.Group+"/"+a.Resource.Name+"/"+a.Version.Name, b.Resource.Group+"/"+b.Resource.Name+"/"+b.Version.Name)
	})
	docs.index = sync.OnceValues(docs.buildIndex)
	docs.v2 = h.newDocument(all, openapi.V2, parseV2)
	if h.latest == nil || h.latest.generation < generation {
		h.latest = docs
	}
	return docs
}

func (d *openAPIDocuments) buildIndex() (tagged, error) {
	type entry struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	paths := make(map[string]entry, len(d.v3))
	for path, doc := range d.v3 {
		t, err := doc.json()
		if err != nil {
			return tagged{}, err
		}
		paths[path] = entry{openAPIURL(path, t)}
	}
	raw, err := json.Marshal(map[string]any{"paths": paths})
	return tagged{raw: raw, etag: etagOf(raw)}, err
}

// openAPIURL names a document by its content, so that it can be cached for good.
func openAPIURL(path string, t tagged) string {
	u := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {strings.Trim(t.etag, `"`)}}.Encode()}
	return u.String()
}

// serve runs f with the documents of the request's catalog.
func (h *openAPIHandler) serve(f func(w http.ResponseWriter, req *restful.Request, docs *openAPIDocuments) error) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) {
		err := errNoCatalog()
		if catalog := rest.CatalogFrom(req.Request.Context()); catalog != nil {
			err = f(resp.ResponseWriter, req, h.of(catalog))
		}
		if err != nil {
			if statusOf(err).Code >= http.StatusInternalServerError {
				h.logger.ErrorContext(req.Request.Context(), "openapi failed", "path", req.Request.URL.Path, "err", err)
			}
			writeError(resp.ResponseWriter, req.Request, err)
		}
	}
}

// v2 serves /openapi/v2.
func (h *openAPIHandler) v2(w http.ResponseWriter, req *restful.Request, docs *openAPIDocuments) error {
	return docs.v2.write(w, req.Request, "v2")
}

// v3Index serves /openapi/v3.
func (h *openAPIHandler) v3Index(w http.ResponseWriter, req *restful.Request, docs *openAPIDocuments) error {
	t, err := docs.index()
	if err != nil {
		return err
	}
	writeTagged(w, req.Request, output{mediaType: mediaTypeJSON}, t.raw, t.etag)
	return nil
}

// v3 serves the document of a group version. A hash makes it cachable for good;
// one that is out of date redirects to the present one.
func (h *openAPIHandler) v3(w http.ResponseWriter, req *restful.Request, docs *openAPIDocuments) error {
	path := strings.Trim(strings.TrimPrefix(req.Request.URL.Path, "/openapi/v3/"), "/")
	doc := docs.v3[path]
	if doc == nil {
		return newRouteNotFound(req.Request, schema.GroupResource{})
	}
	if hash := req.Request.URL.Query().Get("hash"); hash != "" {
		t, err := doc.json()
		if err != nil {
			return err
		}
		if hash != strings.Trim(t.etag, `"`) {
			http.Redirect(w, req.Request, openAPIURL(path, t), http.StatusMovedPermanently)
			return nil
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	return doc.write(w, req.Request, "v3")
}

// write answers with the document in the form agreed.
func (d *openAPIDocument) write(w http.ResponseWriter, req *http.Request, version string) error {
	offer := openAPIMediaTypes{version}
	out, ok := negotiate(req, offer)
	if !ok {
		return newNotAcceptable(offer.mediaTypes())
	}
	w.Header().Set("Vary", "Accept")
	out.pretty = false
	t, err := d.json()
	if err != nil {
		return err
	}
	raw := t.raw
	if out.mediaType != mediaTypeJSON {
		out.mediaType = offer.mediaTypes()[1] // never the old name
		if raw, err = d.protobuf(); err != nil {
			return err
		}
	}
	writeTagged(w, req, out, raw, t.etag)
	return nil
}

// writeTagged answers with raw, or 304 to a client that has it.
func writeTagged(w http.ResponseWriter, req *http.Request, out output, raw []byte, etag string) {
	w.Header().Set("ETag", etag)
	if slices.Contains(strings.Split(strings.ReplaceAll(req.Header.Get("If-None-Match"), " ", ""), ","), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeBytes(w, req, out, http.StatusOK, raw)
}
