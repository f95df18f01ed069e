package etcd3

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
)

// Metrics counts the requests to etcd, under upstream's names. A resource has no series before
// something happens to it.
type Metrics struct {
	duration     *prometheus.HistogramVec
	total        *prometheus.CounterVec
	failed       *prometheus.CounterVec
	events       *prometheus.CounterVec
	bookmarks    *prometheus.GaugeVec
	bookmarked   *prometheus.CounterVec
	undecodable  *prometheus.CounterVec
	listDuration *prometheus.HistogramVec
	leased       prometheus.Histogram
	members      *prometheus.GaugeVec
	lists        *storage.ListMetrics
}

// NewMetrics registers the collectors. Those that are registered already are shared.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	byOperation := []string{"operation", "group", "resource"}
	byResource := byOperation[1:]
	buckets := []float64{
		0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
		4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
	}
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "etcd_request_duration_seconds",
			Help:    "Etcd request latency in seconds for each operation and object type.",
			Buckets: buckets,
		}, byOperation),
		total:  counter("etcd_requests_total", "Etcd request counts for each operation and object type.", byOperation),
		failed: counter("etcd_request_errors_total", "Etcd failed request counts for each operation and object type.", byOperation),
		events: counter("apiserver_storage_events_received_total", "Number of etcd events received split by kind.", byResource),
		bookmarks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcd_bookmark_counts",
			Help: "Number of etcd bookmarks (progress notify events) split by kind.",
		}, byResource),
		bookmarked:  counter("etcd_bookmark_total", "Number of etcd bookmarks (progress notify events) split by kind.", byResource),
		undecodable: counter("apiserver_storage_decode_errors_total", "Number of stored object decode errors split by object type", byResource),
		listDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_storage_list_duration_seconds",
			Help:    "Latency of the storage layer GetList call in seconds, including object decode, split by whether etcd RangeStream was used.",
			Buckets: buckets,
		}, append([]string{"streamed"}, byResource...)),
		leased: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "etcd_lease_object_counts",
			Help:    "Number of objects attached to a single etcd lease.",
			Buckets: []float64{10, 50, 100, 500, 1000, 2500, 5000},
		}),
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_etcd_member_answers",
			Help: "Whether a member of an etcd has answered when it was asked last. One that has not gets no requests while another does.",
		}, []string{"etcd", "endpoint"}),
	}
	var err error
	m.duration, err = register(registerer, m.duration, err)
	m.total, err = register(registerer, m.total, err)
	m.failed, err = register(registerer, m.failed, err)
	m.events, err = register(registerer, m.events, err)
	m.bookmarks, err = register(registerer, m.bookmarks, err)
	m.bookmarked, err = register(registerer, m.bookmarked, err)
	m.undecodable, err = register(registerer, m.undecodable, err)
	m.listDuration, err = register(registerer, m.listDuration, err)
	m.leased, err = register(registerer, m.leased, err)
	m.members, err = register(registerer, m.members, err)
	lists, failed := storage.NewListMetrics(registerer)
	m.lists = lists
	if err = errors.Join(err, failed); err != nil {
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

// Forget removes the series of a resource that is served no more.
func (m *Metrics) Forget(group, resource string) {
	if m == nil {
		return
	}
	labels := prometheus.Labels{"group": group, "resource": resource}
	m.duration.DeletePartialMatch(labels)
	m.total.DeletePartialMatch(labels)
	m.failed.DeletePartialMatch(labels)
	m.events.DeletePartialMatch(labels)
	m.bookmarks.DeletePartialMatch(labels)
	m.bookmarked.DeletePartialMatch(labels)
	m.undecodable.DeletePartialMatch(labels)
	m.listDuration.DeletePartialMatch(labels)
	m.lists.Forget(group, resource)
}

// Report has the series of the members of an etcd, which the server calls name.
func (m *Metrics) Report(name string, members *Members) {
	members.mu.Lock()
	defer members.mu.Unlock()
	members.gauge = m.members.MustCurryWith(prometheus.Labels{"etcd": name})
}

// operation counts the requests of one kind.
type operation struct {
	metrics               *Metrics // nil counts nothing
	health                *Health  // nil is not told
	name, group, resource string

	once          sync.Once
	duration      prometheus.Observer // set by once, as those below
	total, failed prometheus.Counter
}

// observe counts one request.
func (o *operation) observe(started time.Time, err error) {
	o.health.observe(err)
	m := o.metrics
	if m == nil {
		return
	}
	o.once.Do(func() {
		o.duration = m.duration.WithLabelValues(o.name, o.group, o.resource)
		o.total = m.total.WithLabelValues(o.name, o.group, o.resource)
		o.failed = m.failed.WithLabelValues(o.name, o.group, o.resource)
	})
	o.duration.Observe(time.Since(started).Seconds())
	o.total.Inc()
	if err != nil {
		o.failed.Inc()
	}
}

// operations are the kinds of requests of one Store.
type operations struct {
	get, list, create, update, delete, count, currentRevision operation

	metrics         *Metrics
	group, resource string
	lists           *storage.ListCounters
}

// init sets the labels.
func (o *operations) init(m *Metrics, health *Health, group, resource string) {
	for name, op := range map[string]*operation{
		"get": &o.get, "list": &o.list, "create": &o.create, "update": &o.update, "delete": &o.delete,
		"listWithCount": &o.count, "getCurrentResourceVersion": &o.currentRevision,
	} {
		op.metrics, op.health, op.name, op.group, op.resource = m, health, name, group, resource
	}
	o.metrics, o.group, o.resource = m, group, resource
	var lists *storage.ListMetrics
	if m != nil {
		lists = m.lists
	}
	o.lists = lists.Of(group, resource, storage.ListFromEtcd)
}

// received counts events of a watch.
func (o *operations) received(n int) {
	if o.metrics != nil {
		o.metrics.events.WithLabelValues(o.group, o.resource).Add(float64(n))
	}
}

// bookmarked counts a progress notification.
func (o *operations) bookmarked() {
	if o.metrics != nil {
		o.metrics.bookmarks.WithLabelValues(o.group, o.resource).Inc()
		o.metrics.bookmarked.WithLabelValues(o.group, o.resource).Inc()
	}
}

// undecodable counts a row that cannot be read.
func (o *operations) undecodable() {
	if o.metrics != nil {
		o.metrics.undecodable.WithLabelValues(o.group, o.resource).Inc()
	}
}

// listed counts a list that was served.
func (o *operations) listed(started time.Time, fetched, evaluated, returned int) {
	if o.metrics == nil {
		return
	}
	o.metrics.listDuration.WithLabelValues("false", o.group, o.resource).Observe(time.Since(started).Seconds())
	o.lists.Observe("", fetched, evaluated, returned)
}

// sizeTimeout bounds how long a scrape waits for the size of one database.
const sizeTimeout = time.Second

// SizeCollector reports apiserver_storage_size_bytes, the size of each etcd's database, when it is scraped.
type SizeCollector struct {
	// Clients by storage_cluster_id, which upstream calls etcd-0, etcd-1, …
	Clients map[string]*clientv3.Client
	// Logger is told of those that do not answer; nil drops it.
	Logger *slog.Logger
}

var _ prometheus.Collector = (*SizeCollector)(nil)

// sizeDesc describes apiserver_storage_size_bytes.
func sizeDesc() *prometheus.Desc {
	return prometheus.NewDesc("apiserver_storage_size_bytes",
		"Size of the storage database file physically allocated in bytes.", []string{"storage_cluster_id"}, nil)
}

// Describe implements prometheus.Collector.
func (c *SizeCollector) Describe(ch chan<- *prometheus.Desc) { ch <- sizeDesc() }

// Collect implements prometheus.Collector. All clusters are asked at once.
func (c *SizeCollector) Collect(ch chan<- prometheus.Metric) {
	desc := sizeDesc()
	var asked sync.WaitGroup
	for id, client := range c.Clients {
		asked.Go(func() {
			size, err := DatabaseSize(client)
			switch {
			case err == nil:
				ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(size), id)
			case c.Logger != nil:
				c.Logger.Info("size of the etcd database is not known", "storageClusterId", id, "error", err)
			}
		})
	}
	asked.Wait()
}

// DatabaseSize returns the size of an etcd's database in bytes, as it is on disk.
func DatabaseSize(client *clientv3.Client) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sizeTimeout)
	defer cancel()
	endpoint := ""
	if endpoints := client.Endpoints(); len(endpoints) > 0 {
		endpoint = endpoints[0]
	}
	status, err := client.Maintenance.Status(ctx, endpoint)
	if err != nil {
		return 0, err
	}
	return status.DbSize, nil
}
