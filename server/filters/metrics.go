package filters

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/request"
)

// Metrics counts requests under the names that kube-apiserver gives them. A nil *Metrics counts nothing.
type Metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	current   *prometheus.GaugeVec
	dropped   *prometheus.CounterVec
}

// NewMetrics registers the collectors.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests by verb, group, version, resource, subresource, scope and HTTP code.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "Duration of requests, watches apart.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "group", "version", "resource", "subresource", "scope"}),
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests",
			Help: "Requests being served, watches apart.",
		}, []string{"request_kind"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_dropped_requests_total",
			Help: "Requests answered 429 because too many were in flight.",
		}, []string{"request_kind"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.current, m.dropped} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) rejected(kind string) {
	if m != nil {
		m.dropped.WithLabelValues(kind).Inc()
	}
}

func (m *Metrics) inFlight(kind string, delta float64) {
	if m != nil {
		m.current.WithLabelValues(kind).Add(delta)
	}
}

// withMetrics observes requests. A resource is a label only where the endpoints have found that it is
// served, so that no path makes up a label; an answer of a filter before them is counted without it.
func withMetrics(handler http.Handler, m *Metrics) http.Handler {
	if m == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.InfoFrom(r.Context())
		if !ok {
			handler.ServeHTTP(w, r)
			return
		}
		start := time.Now()
		ctx, served := request.WithServed(r.Context())
		recorder := &headerRecorder{ResponseWriter: w, code: http.StatusInternalServerError} // of one that panics
		defer func() {
			group, version, resource, subresource, scope := "", "", "", "", ""
			if *served {
				group, version, resource, subresource = info.APIGroup, info.APIVersion, info.Resource, info.Subresource
				scope = scopeOf(info)
			}
			verb := reportedVerb(info.Verb, r.Header.Get("Content-Type"))
			m.requests.WithLabelValues(verb, group, version, resource, subresource, scope, strconv.Itoa(recorder.code)).Inc()
			if !isLongRunning(info) {
				m.durations.WithLabelValues(verb, group, version, resource, subresource, scope).Observe(time.Since(start).Seconds())
			}
		}()
		handler.ServeHTTP(recorder, r.WithContext(ctx))
		if !recorder.written {
			recorder.code = http.StatusOK // as net/http answers for a handler that wrote nothing
		}
	})
}

// reportedVerb returns the verb that kube-apiserver's metrics have for one of a request, whose body is of contentType.
func reportedVerb(verb, contentType string) string {
	switch verb {
	case "get", "head":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "create", "post":
		return "POST"
	case "update", "put":
		return "PUT"
	case "patch":
		if strings.HasPrefix(contentType, "application/apply-patch+") {
			return "APPLY"
		}
		return "PATCH"
	case "delete", "deletecollection": // the scope tells them apart
		return "DELETE"
	}
	return "other"
}

// scopeOf returns what a request is about: one object, those of a namespace, or those of the cluster.
func scopeOf(info *apirequest.RequestInfo) string {
	named := info.Name != ""
	switch info.Verb {
	case "list", "watch", "deletecollection":
		named = false // the name is that of a field selector, which changes nothing in the route
	}
	switch {
	case named || info.Verb == "create":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	case info.IsResourceRequest:
		return "cluster"
	}
	return ""
}
