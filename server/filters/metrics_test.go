package filters

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/request"
)

// A path makes up no label: neither by a resource that is not served nor by a request that a filter refuses.
func TestMetricsLabels(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	chain := testChain(t, func(w http.ResponseWriter, r *http.Request) {
		if info, _ := request.InfoFrom(r.Context()); info.Resource == "pods" {
			request.MarkServed(r.Context())
			if info.Name == "broken" {
				panic("broken")
			}
			return
		}
		w.WriteHeader(http.StatusBadRequest)
	}, func(c *Config) { c.Metrics = metrics })
	for _, r := range []struct {
		who, path string
		headers   []string
	}{
		{"alice", "/api/v1/pods", nil},
		{"alice", "/api/v1/namespaces/default/pods/broken", nil},
		{"alice", "/apis/evil1/v1/things", nil},
		{"alice", "/apis/evil2/v1/things?timeout=x", nil},
		{"alice", "/apis/evil3/v1/things", []string{"Impersonate-Group", "x"}},
		{"", "/apis/evil4/v1/things", nil},
		{"bob", "/apis/evil5/v1/things", nil},
	} {
		do(t, chain, r.who, "GET", r.path, r.headers...)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() != "apiserver_request_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			var line []string
			for _, label := range m.GetLabel() {
				if label.GetValue() != "" {
					line = append(line, label.GetName()+"="+label.GetValue())
				}
			}
			got = append(got, fmt.Sprint(strings.Join(line, " "), " ", m.GetCounter().GetValue()))
		}
	}
	slices.Sort(got)
	want := []string{
		"code=200 resource=pods scope=cluster verb=LIST version=v1 1",
		"code=400 verb=LIST 3",
		"code=401 verb=LIST 1",
		"code=403 verb=LIST 1",
		"code=500 resource=pods scope=resource verb=GET version=v1 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("counted\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Dashboards made for kube-apiserver select by its verbs and scopes.
func TestMetricsVerbs(t *testing.T) {
	tests := []struct{ method, path, contentType, verb, scope string }{
		{"GET", "/api/v1/pods", "", "LIST", "cluster"},
		{"GET", "/api/v1/namespaces/a/pods", "", "LIST", "namespace"},
		{"GET", "/api/v1/namespaces/a/pods?watch=true", "", "WATCH", "namespace"},
		{"GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db", "", "LIST", "namespace"},
		{"GET", "/api/v1/namespaces/a/pods?watch=true&fieldSelector=metadata.name%3Db", "", "WATCH", "namespace"},
		{"GET", "/api/v1/nodes?watch=true&fieldSelector=metadata.name%3Db", "", "WATCH", "cluster"},
		{"DELETE", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db", "", "DELETE", "namespace"},
		{"GET", "/api/v1/namespaces/a/pods/b", "", "GET", "resource"},
		{"HEAD", "/api/v1/namespaces/a/pods/b", "", "GET", "resource"},
		{"POST", "/api/v1/namespaces/a/pods", "application/json", "POST", "resource"},
		{"PUT", "/api/v1/namespaces/a/pods/b", "application/json", "PUT", "resource"},
		{"PATCH", "/api/v1/namespaces/a/pods/b", "application/merge-patch+json", "PATCH", "resource"},
		{"PATCH", "/api/v1/namespaces/a/pods/b", "application/apply-patch+yaml", "APPLY", "resource"},
		{"DELETE", "/api/v1/namespaces/a/pods/b", "", "DELETE", "resource"},
		{"DELETE", "/api/v1/namespaces/a/pods", "", "DELETE", "namespace"},
		{"GET", "/version", "", "GET", ""},
		{"BREW", "/version", "", "other", ""},
	}
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, tc := range tests {
		t.Run(tc.method+" "+tc.path+" "+tc.contentType, func(t *testing.T) {
			info, err := resolver.NewRequestInfo(httptest.NewRequest(tc.method, tc.path, nil))
			if err != nil {
				t.Fatal(err)
			}
			if verb, scope := reportedVerb(info.Verb, tc.contentType), scopeOf(info); verb != tc.verb || scope != tc.scope {
				t.Errorf("%q of scope %q, want %q of %q", verb, scope, tc.verb, tc.scope)
			}
		})
	}
}
