package host

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/internal/codecache"
)

// metrics are the collectors of a Runtime, beside that of its pools; nil
// collects nothing. Labels are bounded by the modules in use: those of a closed
// module are deleted.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	fuel     *prometheus.HistogramVec
	compile  prometheus.Histogram
	loads    *prometheus.CounterVec
	cache    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	if reg == nil {
		return nil, nil
	}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_host_calls_total",
			Help: "Calls of guests by module, hook and class of failure (ok if none).",
		}, []string{"module", "hook", "class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weir_host_call_duration_seconds",
			Help:    "Duration of guest calls, waiting for a guest and restoring it included.",
			Buckets: prometheus.ExponentialBuckets(5e-6, 4, 10),
		}, []string{"module", "hook"}),
		fuel: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weir_host_call_fuel",
			Help:    "Fuel units that guest calls used.",
			Buckets: prometheus.ExponentialBuckets(1000, 10, 6),
		}, []string{"module", "hook"}),
		compile: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_host_compile_duration_seconds",
			Help:    "Duration of rewriting and compiling a module, from the cache or not.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_host_loads_total",
			Help: "Modules loaded, by class of failure (ok if none).",
		}, []string{"class"}),
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_host_code_cache_total",
			Help: "Uses of the cache of compiled code: hit, miss, corrupt (compiled again), error (done without).",
		}, []string{"result"}),
	}
	for _, c := range []prometheus.Collector{m.calls, m.duration, m.fuel, m.compile, m.loads, m.cache} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("host: register metrics: %w", err)
		}
	}
	return m, nil
}

func classLabel(c Class) string {
	if c == 0 {
		return "ok"
	}
	return c.String()
}

// series are what a module's calls of a hook are counted in. To find them takes
// longer than to count.
type series struct {
	module         string
	op             abi.Op
	ok             prometheus.Counter
	duration, fuel prometheus.Observer
}

func (m *metrics) series(module string, op abi.Op) *series {
	return &series{
		module: module, op: op,
		ok:       m.calls.WithLabelValues(module, op.String(), classLabel(0)),
		duration: m.duration.WithLabelValues(module, op.String()),
		fuel:     m.fuel.WithLabelValues(module, op.String()),
	}
}

// called counts a call in series of its.
func (m *metrics) called(s *series, class Class, d time.Duration, fuel uint64) {
	if class == 0 {
		s.ok.Inc()
	} else {
		m.calls.WithLabelValues(s.module, s.op.String(), classLabel(class)).Inc()
	}
	s.duration.Observe(d.Seconds())
	s.fuel.Observe(float64(fuel))
}

func (m *metrics) compiled(d time.Duration) {
	if m != nil {
		m.compile.Observe(d.Seconds())
	}
}

func (m *metrics) cacheUsed(state codecache.State) {
	if m != nil {
		m.cache.WithLabelValues(string(state)).Inc()
	}
}

// cached counts what became of an entry.
func (m *metrics) cached(err error) {
	if m != nil && err != nil {
		m.cache.WithLabelValues("error").Inc()
	}
}

func (m *metrics) loaded(class Class) {
	if m != nil {
		m.loads.WithLabelValues(classLabel(class)).Inc()
	}
}

// forget drops the series of a module.
func (m *metrics) forget(module string) {
	if m == nil {
		return
	}
	l := prometheus.Labels{"module": module}
	m.calls.DeletePartialMatch(l)
	m.duration.DeletePartialMatch(l)
	m.fuel.DeletePartialMatch(l)
}
