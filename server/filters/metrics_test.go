package filters

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

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
		"code=200 resource=pods verb=list version=v1 1",
		"code=400 verb=list 3",
		"code=401 verb=list 1",
		"code=403 verb=list 1",
		"code=500 resource=pods verb=get version=v1 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("counted\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
