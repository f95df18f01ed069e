package encryption

import (
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	fromStorage = "from_storage"
	toStorage   = "to_storage"
)

// metrics have upstream's names, without the label that hashes an API server's name.
type metrics struct {
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	reloads    *prometheus.CounterVec
	reloadedAt *prometheus.GaugeVec
	config     *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_storage_transformation_operations_total", Help: "Rows that were encrypted or decrypted.",
		}, []string{"resource", "transformation_type", "transformer_prefix", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_storage_transformation_duration_seconds", Help: "How long it took to encrypt or decrypt a row.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 2, 25),
		}, []string{"transformation_type", "transformer_prefix"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_encryption_config_controller_automatic_reloads_total", Help: "Reloads of the encryption configuration.",
		}, []string{"status"}),
		reloadedAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
			Help: "When the encryption configuration was last reloaded.",
		}, []string{"status"}),
		config: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_encryption_config_controller_last_config_info", Help: "The encryption configuration in force, by the hash of its file.",
		}, []string{"hash"}),
	}
	if registerer == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.operations, m.durations, m.reloads, m.reloadedAt, m.config} {
		errs = append(errs, registerer.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) inForce(hash string) {
	m.config.Reset()
	m.config.WithLabelValues(hash).Set(1)
}

func (m *metrics) reloaded(err error) {
	label := "success"
	if err != nil {
		label = "failure"
	}
	m.reloads.WithLabelValues(label).Inc()
	m.reloadedAt.WithLabelValues(label).SetToCurrentTime()
}

// forget removes the series of a resource.
func (m *metrics) forget(gr schema.GroupResource) {
	m.operations.DeletePartialMatch(prometheus.Labels{"resource": gr.String()})
}

// transformation counts what one provider does in one direction.
type transformation struct {
	count    prometheus.Counter
	duration prometheus.Observer
}

func (t *transformation) observe(started time.Time) {
	t.count.Inc()
	t.duration.Observe(time.Since(started).Seconds())
}

// view returns the chain of a resource with its counters.
func (m *metrics) view(gr schema.GroupResource, g *generation) *view {
	resource := gr.String()
	v := &view{of: g, chain: g.chain(gr)}
	v.failed = func(direction, family string, err error) {
		m.operations.WithLabelValues(resource, direction, family, codeOf(err)).Inc()
	}
	one := func(direction, family string) transformation {
		return transformation{
			count:    m.operations.WithLabelValues(resource, direction, family, codes.OK.String()),
			duration: m.durations.WithLabelValues(direction, family),
		}
	}
	for i := range v.chain {
		v.read = append(v.read, one(fromStorage, v.chain[i].family))
		if i == 0 {
			v.wrote = one(toStorage, v.chain[i].family)
		}
	}
	return v
}

// codeOf returns upstream's label of an error.
func codeOf(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return "unknown-non-grpc"
}

// KMSMetrics gathers what upstream's KMS client counts, for all servers of a process: apiserver_envelope_encryption_* and
// two more. Its registry holds other things too.
func KMSMetrics() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		var out []*dto.MetricFamily
		for _, f := range families {
			switch name := f.GetName(); {
			case strings.HasPrefix(name, "apiserver_envelope_encryption_"),
				strings.HasPrefix(name, "apiserver_storage_data_key_generation_"),
				name == "apiserver_storage_envelope_transformation_cache_misses_total":
				out = append(out, f)
			}
		}
		return out, err
	})
}
