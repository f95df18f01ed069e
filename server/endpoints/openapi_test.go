package endpoints

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
)

func TestOpenAPIV3(t *testing.T) {
	w := newWorld(t, Config{Version: "v1.2.3"})
	index := w.do(t, "GET", "/openapi/v3", "").document(t)
	url := index.Get("paths", "apis/example.com/v1", "serverRelativeURL").String()
	if !strings.HasPrefix(url, "/openapi/v3/apis/example.com/v1?hash=") {
		t.Fatalf("index: %s", index.Bytes())
	}
	doc := w.do(t, "GET", url, "")
	if doc.code != 200 || doc.header.Get("Cache-Control") != "public, immutable" {
		t.Fatalf("%d %v", doc.code, doc.header)
	}
	var parsed spec3.OpenAPI
	if err := json.Unmarshal([]byte(doc.body), &parsed); err != nil {
		t.Fatal(err)
	}
	item := parsed.Paths.Paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]
	if item == nil || item.Patch == nil || item.Get == nil || item.Put == nil || item.Delete == nil {
		t.Fatalf("paths: %v", parsed.Paths.Paths)
	}
	var gvk map[string]string
	if err := item.Patch.Extensions.GetObject("x-kubernetes-group-version-kind", &gvk); err != nil || gvk["kind"] != "Widget" {
		t.Errorf("gvk %v: %v", gvk, err)
	}
	var names []string
	for _, p := range item.Patch.Parameters {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "dryRun fieldManager fieldValidation force" {
		t.Errorf("parameters %s", got)
	}
	widget := parsed.Components.Schemas["com.example.v1.Widget"]
	if widget == nil || widget.Extensions["x-kubernetes-group-version-kind"] == nil {
		t.Errorf("schema: %+v", widget)
	}
	if again := w.do(t, "GET", url, "", "If-None-Match: "+doc.header.Get("ETag")); again.code != 304 {
		t.Errorf("unchanged: %d", again.code)
	}
	protobuf := w.do(t, "GET", url, "", "Accept: application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
	if protobuf.code != 200 || protobuf.header.Get("Content-Type") != "application/com.github.proto-openapi.spec.v3.v1.0+protobuf" {
		t.Errorf("protobuf: %d %v", protobuf.code, protobuf.header)
	}
	if missing := w.do(t, "GET", "/openapi/v3/apis/nope/v1", ""); missing.code != 404 {
		t.Errorf("missing: %d", missing.code)
	}
}

func TestOpenAPIV3StaleHash(t *testing.T) {
	w := newWorld(t, Config{})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.URL+"/openapi/v3/api/v1?hash=OLD", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 301 || !strings.HasPrefix(resp.Header.Get("Location"), "/openapi/v3/api/v1?hash=") {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

func TestClientGoReadsOpenAPI(t *testing.T) {
	w := newWorld(t, Config{})
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: w.URL})
	if err != nil {
		t.Fatal(err)
	}
	v2, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range v2.GetDefinitions().GetAdditionalProperties() {
		found = found || d.GetName() == "com.example.v1.Widget"
	}
	if !found {
		t.Error("v2 has no Widget")
	}
	doc, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(schema.GroupVersion{Group: "example.com", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Components.Schemas["com.example.v1.WidgetList"] == nil {
		t.Error("v3 has no WidgetList")
	}
}
