package cacher

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage"
)

// Metrics are the collectors of all cachers of a server, under upstream's names.
// Their labels are the group and the resource. A resource has no series before something happens to it.
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
	ringBytes        *prometheus.GaugeVec
	ringLimit        *prometheus.GaugeVec
	capacityIncrease *prometheus.CounterVec
	capacityDecrease *prometheus.CounterVec
	readWait         *prometheus.HistogramVec
	consistentReads  *prometheus.CounterVec
	checks           *prometheus.CounterVec
	lists            *prometheus.CounterVec
	listFetched      *prometheus.CounterVec
	listReturned     *prometheus.CounterVec
	idleStops        *prometheus.CounterVec
	watchRestarts    *prometheus.CounterVec
	indexes          *prometheus.GaugeVec
	running          prometheus.Gauge
	storageLists     *storage.ListMetrics
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
			0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600),
		terminated:       counter("apiserver_terminated_watchers_total", "Watchers that fell behind further than a watch cache remembers."),
		resourceVersion:  gauge("apiserver_watch_cache_resource_version", "The resourceVersion that a watch cache reflects, its last 15 digits."),
		capacity:         gauge("watch_cache_capacity", "How many events a watch cache can remember."),
		ringBytes:        gauge("weir_watch_cache_event_bytes", "Bytes that only the events and the states of lists which a watch cache remembers keep in memory."),
		ringLimit:        gauge("weir_watch_cache_event_bytes_limit", "How many of these bytes a watch cache may keep, but for its latest 100 events."),
		capacityIncrease: counter("watch_cache_capacity_increase_total", "How often a watch cache's memory for events grew."),
		capacityDecrease: counter("watch_cache_capacity_decrease_total", "How often a watch cache's memory for events shrank."),
		readWait: histogram("apiserver_watch_cache_read_wait_seconds", "How long reads waited for a watch cache to become fresh.",
			0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3),
		consistentReads: counter("apiserver_watch_cache_consistent_read_total", "Consistent reads, by whether a watch cache served them.", "success", "fallback"),
		checks:          counter("apiserver_storage_consistency_checks_total", "Comparisons of a watch cache with its storage.", "status"),
		lists:           counter("apiserver_cache_list_total", "Lists served by a watch cache.", "index"),
		listFetched:     counter("apiserver_cache_list_fetched_objects_total", "Objects looked at to serve lists.", "index"),
		listReturned:    counter("apiserver_cache_list_returned_objects_total", "Objects in lists served by a watch cache."),
		idleStops:       counter("weir_watch_cache_idle_stops_total", "How often a watch cache was stopped because nobody used it."),
		watchRestarts:   counter("weir_watch_cache_stuck_watches_total", "Watches of the storage that a watch cache ended because they stayed behind what the storage answered."),
		indexes:         gauge("weir_watch_cache_indexes", "How many indexes of fields and labels a watch cache has."),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_watch_caches_running", Help: "Watch caches that hold their resource's objects."}),
	}
	if reg != nil {
		reg.MustRegister(m.eventsReceived, m.eventsDispatched, m.initEvents, m.initializations, m.initErrors, m.initDuration,
			m.terminated, m.resourceVersion, m.capacity, m.ringBytes, m.ringLimit, m.capacityIncrease, m.capacityDecrease, m.readWait,
			m.consistentReads, m.checks, m.lists, m.listFetched, m.listReturned, m.idleStops, m.watchRestarts, m.indexes, m.running)
	}
	lists, err := storage.NewListMetrics(reg)
	if err != nil {
		panic(err) // as MustRegister
	}
	m.storageLists = lists
	return m
}

// Forget removes the series of a resource that is served no more.
func (m *Metrics) Forget(gr schema.GroupResource) {
	labels := prometheus.Labels{"group": gr.Group, "resource": gr.Resource}
	for _, vec := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{
		m.eventsReceived, m.eventsDispatched, m.initEvents, m.initializations, m.initErrors, m.initDuration, m.terminated,
		m.resourceVersion, m.capacity, m.ringBytes, m.ringLimit, m.capacityIncrease, m.capacityDecrease, m.readWait, m.consistentReads, m.checks,
		m.lists, m.listFetched, m.listReturned, m.idleStops, m.watchRestarts, m.indexes,
	} {
		vec.DeletePartialMatch(labels)
	}
	m.storageLists.Forget(gr.Group, gr.Resource)
}

// instruments are the Metrics of one cacher. Each has a series from its first use on.
type instruments struct {
	eventsReceived, eventsDispatched, initEvents, initializations, initErrors, terminated counter
	capacityIncrease, capacityDecrease, idleStops, watchRestarts                          counter
	readFresh, readFellBack                                                               counter
	checkSuccess, checkFailure, checkError                                                counter
	resourceVersion, capacity, ringBytes, ringLimit, indexes                              gauge
	initDuration, readWait                                                                observer
	running                                                                               prometheus.Gauge
	list                                                                                  listing
}

func (m *Metrics) of(gr schema.GroupResource) *instruments {
	count := func(vec *prometheus.CounterVec, more ...string) counter {
		return counter{series[prometheus.Counter]{find: sync.OnceValue(func() prometheus.Counter {
			return vec.WithLabelValues(append([]string{gr.Group, gr.Resource}, more...)...)
		})}}
	}
	set := func(vec *prometheus.GaugeVec) gauge {
		return gauge{series[prometheus.Gauge]{find: sync.OnceValue(func() prometheus.Gauge { return vec.WithLabelValues(gr.Group, gr.Resource) })}}
	}
	observe := func(vec *prometheus.HistogramVec) observer {
		return observer{series[prometheus.Observer]{find: sync.OnceValue(func() prometheus.Observer { return vec.WithLabelValues(gr.Group, gr.Resource) })}}
	}
	return &instruments{
		eventsReceived:   count(m.eventsReceived),
		eventsDispatched: count(m.eventsDispatched),
		initEvents:       count(m.initEvents),
		initializations:  count(m.initializations),
		initErrors:       count(m.initErrors),
		terminated:       count(m.terminated),
		capacityIncrease: count(m.capacityIncrease),
		capacityDecrease: count(m.capacityDecrease),
		idleStops:        count(m.idleStops),
		watchRestarts:    count(m.watchRestarts),
		readFresh:        count(m.consistentReads, "true", "false"),
		readFellBack:     count(m.consistentReads, "false", "true"),
		checkSuccess:     count(m.checks, "success"),
		checkFailure:     count(m.checks, "failure"),
		checkError:       count(m.checks, "error"),
		resourceVersion:  set(m.resourceVersion),
		capacity:         set(m.capacity),
		ringBytes:        set(m.ringBytes),
		ringLimit:        set(m.ringLimit),
		indexes:          set(m.indexes),
		initDuration:     observe(m.initDuration),
		readWait:         observe(m.readWait),
		running:          m.running,
		list: listing{
			cached: m.storageLists.Of(gr.Group, gr.Resource, storage.ListFromCache),
			total:  count(m.lists, ""), fetched: count(m.listFetched, ""), returned: count(m.listReturned),
			indexed: func(index string) (total, fetched counter) { return count(m.lists, index), count(m.listFetched, index) },
		},
	}
}

// Sizes returns how many rows the cache holds, and how many bytes they take where they are stored: what a transformer
// adds is not known. ok is false where the cache holds none. It is no use of the cache: it starts none, and keeps none
// running.
func (c *Cacher) Sizes() (rows, bytes int64, ok bool) {
	c.usage.hold()
	defer c.usage.release()
	if !c.isReady.Load() {
		return 0, 0, false
	}
	c.snapshot().rows.Scan(func(at item) bool {
		rows++
		bytes += storedSize(at.el.row)
		return true
	})
	return rows, bytes, true
}

// storedSize is the size of a row without its resourceVersion, which no storage keeps; see storage.Codec.
func storedSize(row storage.Row) int64 {
	var digits [20]byte
	member := len(`"resourceVersion":"",`) + len(strconv.AppendUint(digits[:0], row.ResourceVersion, 10))
	return int64(max(row.Value.Len()-member, 0))
}

// series is one collector of a vector, found at its first use.
type series[T any] struct{ find func() T }

type (
	counter  struct{ series[prometheus.Counter] }
	gauge    struct{ series[prometheus.Gauge] }
	observer struct{ series[prometheus.Observer] }
)

func (c counter) Inc()               { c.find().Inc() }
func (c counter) Add(v float64)      { c.find().Add(v) }
func (g gauge) Set(v float64)        { g.find().Set(v) }
func (o observer) Observe(v float64) { o.find().Observe(v) }

// listing counts lists.
type listing struct {
	cached                   *storage.ListCounters
	total, fetched, returned counter // of no index
	// indexed finds the counters of an index, which the index keeps.
	indexed func(index string) (total, fetched counter)
}

// observe counts one list: the objects looked at by an index, or nil, those a selector was asked about, and those returned.
func (l *listing) observe(by *index, fetched, evaluated, returned int) {
	total, read, label := l.total, l.fetched, ""
	if by != nil {
		total, read, label = by.lists, by.read, by.label
	}
	total.Inc()
	read.Add(float64(fetched))
	l.returned.Add(float64(returned))
	l.cached.Observe(label, fetched, evaluated, returned)
}
