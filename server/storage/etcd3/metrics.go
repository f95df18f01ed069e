package etcd3

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts the requests to etcd, under upstream's names.
type Metrics struct {
	duration *prometheus.HistogramVec
	total    *prometheus.CounterVec
	failed   *prometheus.CounterVec
	events   *prometheus.CounterVec
}

// NewMetrics registers the collectors. Those that are registered already are shared.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	byOperation := []string{"operation", "group", "resource"}
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "etcd_request_duration_seconds",
			Help: "Etcd request latency in seconds for each operation and object type.",
			Buckets: []float64{
				0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
				4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
			},
		}, byOperation),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_requests_total",
			Help: "Etcd request counts for each operation and object type.",
		}, byOperation),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_request_errors_total",
			Help: "Etcd failed request counts for each operation and object type.",
		}, byOperation),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_storage_events_received_total",
			Help: "Number of etcd events received split by kind.",
		}, byOperation[1:]),
	}
	var err error
	m.duration, err = register(registerer, m.duration, err)
	m.total, err = register(registerer, m.total, err)
	m.failed, err = register(registerer, m.failed, err)
	m.events, err = register(registerer, m.events, err)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// register returns the collector that is registered in the end.
func register[C prometheus.Collector](registerer prometheus.Registerer, c C, failed error) (C, error) {
	err := registerer.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, failed
		}
	}
	return c, errors.Join(failed, err)
}

// operation counts the requests of one kind. Its zero value counts nothing.
type operation struct {
	duration      prometheus.Observer
	total, failed prometheus.Counter
}

// observe counts one request.
func (o *operation) observe(started time.Time, err error) {
	if o.total == nil {
		return
	}
	o.duration.Observe(time.Since(started).Seconds())
	o.total.Inc()
	if err != nil {
		o.failed.Inc()
	}
}

// operations are the kinds of requests of one Store.
type operations struct {
	get, list, create, update, delete, count, currentRevision operation
	events                                                    prometheus.Counter
}

// operations returns the counters under these labels.
func (m *Metrics) operations(group, resource string) operations {
	if m == nil {
		return operations{}
	}
	op := func(name string) operation {
		return operation{
			duration: m.duration.WithLabelValues(name, group, resource),
			total:    m.total.WithLabelValues(name, group, resource),
			failed:   m.failed.WithLabelValues(name, group, resource),
		}
	}
	return operations{
		get:             op("get"),
		list:            op("list"),
		create:          op("create"),
		update:          op("update"),
		delete:          op("delete"),
		count:           op("listWithCount"),
		currentRevision: op("getCurrentResourceVersion"),
		events:          m.events.WithLabelValues(group, resource),
	}
}

// received counts events of a watch.
func (o *operations) received(n int) {
	if o.events != nil {
		o.events.Add(float64(n))
	}
}
