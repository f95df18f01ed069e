package audit

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics gathers what upstream's audit counts, for all servers of a process: apiserver_audit_event_total,
// apiserver_audit_error_total, apiserver_audit_level_total and apiserver_audit_requests_rejected_total. Their registry
// holds other things too.
func Metrics() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		var out []*dto.MetricFamily
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "apiserver_audit_") {
				out = append(out, f)
			}
		}
		return out, err
	})
}
