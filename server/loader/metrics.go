package loader

import "github.com/prometheus/client_golang/prometheus"

// Metrics of a Loader. A nil *Metrics counts nothing.
type Metrics struct {
	generation prometheus.Gauge
	loads      *prometheus.CounterVec
}

// NewMetrics registers the collectors.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		generation: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_snapshot_generation", Help: "Generation of the snapshot in force."}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_configuration_loads_total",
			Help: "Changes of configuration objects by kind and by what became of them: accepted, or refused while the last known good stays.",
		}, []string{"kind", "result"}),
	}
	for _, c := range []prometheus.Collector{m.generation, m.loads} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) published(generation uint64) {
	if m != nil {
		m.generation.Set(float64(generation))
	}
}

func (m *Metrics) loaded(kind string, err error) {
	if m == nil {
		return
	}
	result := "accepted"
	if err != nil {
		result = "refused"
	}
	m.loads.WithLabelValues(kind, result).Inc()
}
