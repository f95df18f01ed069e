package endpoints

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	mediaTypeJSON = "application/json"
	mediaTypeYAML = "application/yaml"
)

// output is what was agreed with a client about a response.
type output struct {
	mediaType string
	// contentType is the header where that is more than the media type.
	contentType string
	pretty      bool
	// convert is the kind asked for by `as`, `g` and `v`, nil for the object itself.
	convert *schema.GroupVersionKind
}

// offer says what an endpoint can give.
type offer interface {
	// mediaTypes in order of preference.
	mediaTypes() []string
	// converts reports whether it gives gvk in that media type.
	converts(mediaType string, gvk schema.GroupVersionKind) bool
}

// plainMediaTypes offers no conversion: Status and discovery.
type plainMediaTypes struct{}

func (plainMediaTypes) mediaTypes() []string                          { return []string{mediaTypeJSON, mediaTypeYAML} }
func (plainMediaTypes) converts(string, schema.GroupVersionKind) bool { return false }

// objectMediaTypes offers an object or list, its Table and its metadata.
type objectMediaTypes struct{}

func (objectMediaTypes) mediaTypes() []string { return []string{mediaTypeJSON, mediaTypeYAML} }

func (objectMediaTypes) converts(_ string, gvk schema.GroupVersionKind) bool {
	if gv := gvk.GroupVersion(); gv != metav1.SchemeGroupVersion && gv != metav1beta1.SchemeGroupVersion {
		return false
	}
	switch gvk.Kind {
	case kindTable, kindPartial, kindPartialList:
		return true
	}
	return false
}

// streamMediaTypes offers the events of a watch, which are framed as JSON only.
type streamMediaTypes struct{ objectMediaTypes }

func (streamMediaTypes) mediaTypes() []string { return []string{mediaTypeJSON} }

// negotiate picks the first clause of Accept, by quality and then order, that o
// can give. No header means the first media type.
func negotiate(req *http.Request, o offer) (output, bool) {
	accepted := o.mediaTypes()
	header := req.Header.Get("Accept")
	if header == "" {
		return output{mediaType: accepted[0], pretty: isPretty(req)}, true
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, mediaType := range accepted {
			typ, sub, _ := strings.Cut(mediaType, "/")
			match := clause.Type == "*" && clause.SubType == "*" ||
				clause.Type == typ && (clause.SubType == sub || clause.SubType == "*")
			if !match {
				continue
			}
			if out, ok := negotiateParams(o, mediaType, clause.Params); ok {
				out.pretty = out.pretty || isPretty(req)
				return out, true
			}
		}
	}
	return output{}, false
}

// negotiateParams reads the parameters of one clause. An unknown one is ignored,
// as upstream does.
func negotiateParams(o offer, mediaType string, params map[string]string) (output, bool) {
	out := output{mediaType: mediaType}
	var gvk schema.GroupVersionKind
	for key, value := range params {
		switch key {
		case "as":
			gvk.Kind = value
		case "g":
			gvk.Group = value
		case "v":
			gvk.Version = value
		case "stream":
			if value != "" && value != "watch" {
				return output{}, false
			}
		case "sv":
			if value != "" && value != "v1" {
				return output{}, false
			}
		case "pretty":
			out.pretty = value == "1"
		}
	}
	if gvk.Empty() {
		return out, true
	}
	if !o.converts(mediaType, gvk) {
		return output{}, false
	}
	out.convert = &gvk
	return out, true
}

// negotiateObject is negotiate for an object or list, with the 406 of upstream.
func negotiateObject(req *http.Request) (output, error) {
	out, ok := negotiate(req, objectMediaTypes{})
	if !ok {
		return output{}, newNotAcceptable(objectMediaTypes{}.mediaTypes())
	}
	return out, nil
}

// isPretty reports whether the response is to be indented: ?pretty, else for
// clients at which a human sits.
func isPretty(req *http.Request) bool {
	if strings.Contains(req.URL.RawQuery, "pretty") {
		if value := req.URL.Query().Get("pretty"); value != "" {
			pretty, _ := strconv.ParseBool(value)
			return pretty
		}
	}
	agent := req.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}
