package cacher

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Metrics are the collectors of all cachers of a server, under upstream's names.
// Their labels are the group and the resource.
type Metrics struct {
	eventsReceived   *prometheus.CounterVec
	eventsDispatched *prometheus.CounterVec
	initEvents       *prometheus.CounterVec
	initializations  *prometheus.CounterVec
	initErrors       *prometheus.CounterVec
	initDuration     *prometheus.HistogramVec
	terminated       *prometheus.CounterVec
	resourceVersion  *prometheus.GaugeVec
	capacity         *prometheus.GaugeVec
	capacityIncrease *prometheus.CounterVec
	capacityDecrease *prometheus.CounterVec
	readWait         *prometheus.HistogramVec
	consistentReads  *prometheus.CounterVec
	checks           *prometheus.CounterVec
	lists            *prometheus.CounterVec
	listFetched      *prometheus.CounterVec
	listReturned     *prometheus.CounterVec
}

// NewMetrics makes the collectors and registers them with reg, unless that is nil.
// It panics, as MustRegister does, when they are registered already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	labels := []string{"group", "resource"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels[:2:2], more...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		eventsReceived:   counter("apiserver_watch_cache_events_received_total", "Events received from the storage by a watch cache."),
		eventsDispatched: counter("apiserver_watch_cache_events_dispatched_total", "Events that a watch cache has put before its watchers."),
		initEvents:       counter("apiserver_init_events_total", "Objects sent to watchers as their initial state."),
		initializations:  counter("apiserver_watch_cache_initializations_total", "How often a watch cache was filled."),
		initErrors:       counter("apiserver_watch_cache_initialization_errors_total", "How often a watch cache could not be filled."),
		initDuration: histogram("apiserver_watch_cache_initialization_duration_seconds", "How long it took to fill a watch cache.",
			0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
		terminated:       counter("apiserver_terminated_watchers_total", "Watchers that fell behind further than a watch cache remembers."),
		resourceVersion:  gauge("apiserver_watch_cache_resource_version", "The resourceVersion that a watch cache reflects, its last 15 digits."),
		capacity:         gauge("watch_cache_capacity", "How many events a watch cache can remember."),
		capacityIncrease: counter("watch_cache_capacity_increase_total", "How often a watch cache's memory for events grew."),
		capacityDecrease: counter("watch_cache_capacity_decrease_total", "How often a watch cache's memory for events shrank."),
		readWait: histogram("apiserver_watch_cache_read_wait_seconds", "How long reads waited for a watch cache to become fresh.",
			0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.4, 1, 2, 3),
		consistentReads: counter("apiserver_watch_cache_consistent_read_total", "Consistent reads, by whether a watch cache served them.", "success", "fallback"),
		checks:          counter("apiserver_storage_consistency_checks_total", "Comparisons of a watch cache with its storage.", "status"),
		lists:           counter("apiserver_cache_list_total", "Lists served by a watch cache."),
		listFetched:     counter("apiserver_cache_list_fetched_objects_total", "Objects looked at to serve lists."),
		listReturned:    counter("apiserver_cache_list_returned_objects_total", "Objects in lists served by a watch cache."),
	}
	if reg != nil {
		reg.MustRegister(m.eventsReceived, m.eventsDispatched, m.initEvents, m.initializations, m.initErrors, m.initDuration,
			m.terminated, m.resourceVersion, m.capacity, m.capacityIncrease, m.capacityDecrease, m.readWait,
			m.consistentReads, m.checks, m.lists, m.listFetched, m.listReturned)
	}
	return m
}

// instruments are the Metrics of one cacher, looked up once.
type instruments struct {
	eventsReceived, eventsDispatched, initEvents, initializations, initErrors, terminated prometheus.Counter
	capacityIncrease, capacityDecrease, lists, listFetched, listReturned                  prometheus.Counter
	readFresh, readFellBack                                                               prometheus.Counter
	checkSuccess, checkFailure, checkError                                                prometheus.Counter
	resourceVersion, capacity                                                             prometheus.Gauge
	initDuration, readWait                                                                prometheus.Observer
}

func (m *Metrics) of(gr schema.GroupResource) instruments {
	l := []string{gr.Group, gr.Resource}
	with := func(more ...string) []string { return append(l[:2:2], more...) }
	return instruments{
		eventsReceived:   m.eventsReceived.WithLabelValues(l...),
		eventsDispatched: m.eventsDispatched.WithLabelValues(l...),
		initEvents:       m.initEvents.WithLabelValues(l...),
		initializations:  m.initializations.WithLabelValues(l...),
		initErrors:       m.initErrors.WithLabelValues(l...),
		terminated:       m.terminated.WithLabelValues(l...),
		capacityIncrease: m.capacityIncrease.WithLabelValues(l...),
		capacityDecrease: m.capacityDecrease.WithLabelValues(l...),
		lists:            m.lists.WithLabelValues(l...),
		listFetched:      m.listFetched.WithLabelValues(l...),
		listReturned:     m.listReturned.WithLabelValues(l...),
		readFresh:        m.consistentReads.WithLabelValues(with("true", "false")...),
		readFellBack:     m.consistentReads.WithLabelValues(with("false", "true")...),
		checkSuccess:     m.checks.WithLabelValues(with("success")...),
		checkFailure:     m.checks.WithLabelValues(with("failure")...),
		checkError:       m.checks.WithLabelValues(with("error")...),
		resourceVersion:  m.resourceVersion.WithLabelValues(l...),
		capacity:         m.capacity.WithLabelValues(l...),
		initDuration:     m.initDuration.WithLabelValues(l...),
		readWait:         m.readWait.WithLabelValues(l...),
	}
}
