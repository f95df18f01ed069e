package loader

import "github.com/prometheus/client_golang/prometheus"

// Metrics of a Loader. A nil *Metrics counts nothing.
type Metrics struct {
	generation prometheus.Gauge
	loads      *prometheus.CounterVec
	loaded     prometheus.Gauge
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
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_modules_loaded",
			Help: "Modules in memory, once for each settings: those in force, and replaced ones that a request still uses.",
		}),
	}
	for _, c := range []prometheus.Collector{m.generation, m.loads, m.loaded} {
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

func (m *Metrics) modules(change int) {
	if m != nil {
		m.loaded.Add(float64(change))
	}
}

func (m *Metrics) outcome(kind string, err error) {
	if m == nil {
		return
	}
	result := "accepted"
	if err != nil {
		result = "refused"
	}
	m.loads.WithLabelValues(kind, result).Inc()
}
