package storage

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// The storages that serve lists, as upstream labels them.
const (
	ListFromEtcd  = "etcd"
	ListFromCache = "watchcache"
)

// ListMetrics counts what lists cost, under upstream's names, whichever storage serves them.
type ListMetrics struct {
	total, fetched, evaluated, returned *prometheus.CounterVec
}

// NewListMetrics registers the collectors. Those that are registered already are shared; nil
// registers nothing.
func NewListMetrics(registerer prometheus.Registerer) (*ListMetrics, error) {
	byStorage := []string{"group", "resource", "storage"}
	byIndex := append(byStorage[:3:3], "index")
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &ListMetrics{
		total:     counter("apiserver_storage_list_total", "Number of LIST requests served from storage", byIndex),
		fetched:   counter("apiserver_storage_list_fetched_objects_total", "Number of objects read from storage in the course of serving a LIST request", byIndex),
		evaluated: counter("apiserver_storage_list_evaluated_objects_total", "Number of objects tested in the course of serving a LIST request from storage", byStorage),
		returned:  counter("apiserver_storage_list_returned_objects_total", "Number of objects returned for a LIST request from storage", byStorage),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []**prometheus.CounterVec{&m.total, &m.fetched, &m.evaluated, &m.returned} {
		err := registerer.Register(*c)
		var already prometheus.AlreadyRegisteredError
		if errors.As(err, &already) {
			if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
				*c = existing
				continue
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Of returns the counters of one resource on one storage. They have no series before they are used. m may be nil.
func (m *ListMetrics) Of(group, resource, storage string) *ListCounters {
	return &ListCounters{metrics: m, group: group, resource: resource, storage: storage}
}

// Forget removes the series of a resource that is served no more.
func (m *ListMetrics) Forget(group, resource string) {
	if m == nil {
		return
	}
	labels := prometheus.Labels{"group": group, "resource": resource}
	for _, c := range []*prometheus.CounterVec{m.total, m.fetched, m.evaluated, m.returned} {
		c.DeletePartialMatch(labels)
	}
}

// ListCounters count the lists of one resource.
type ListCounters struct {
	metrics                  *ListMetrics
	group, resource, storage string

	once                                sync.Once
	total, fetched, evaluated, returned prometheus.Counter // of no index; set by once

	mu      sync.Mutex
	indexed map[string]indexCounters // by index; guarded by mu
}

// indexCounters count the lists of one resource that one index served.
type indexCounters struct{ total, fetched prometheus.Counter }

// of returns the counters of an index.
func (c *ListCounters) of(index string) indexCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	counters, ok := c.indexed[index]
	if !ok {
		counters = indexCounters{
			total:   c.metrics.total.WithLabelValues(c.group, c.resource, c.storage, index),
			fetched: c.metrics.fetched.WithLabelValues(c.group, c.resource, c.storage, index),
		}
		if c.indexed == nil {
			c.indexed = map[string]indexCounters{}
		}
		c.indexed[index] = counters
	}
	return counters
}

// Observe counts one list: how many objects were read by the index ("" for none), tested by a selector, and returned.
func (c *ListCounters) Observe(index string, fetched, evaluated, returned int) {
	m := c.metrics
	if m == nil {
		return
	}
	c.once.Do(func() {
		c.total = m.total.WithLabelValues(c.group, c.resource, c.storage, "")
		c.fetched = m.fetched.WithLabelValues(c.group, c.resource, c.storage, "")
		c.evaluated = m.evaluated.WithLabelValues(c.group, c.resource, c.storage)
		c.returned = m.returned.WithLabelValues(c.group, c.resource, c.storage)
	})
	total, read := c.total, c.fetched
	if index != "" {
		by := c.of(index)
		total, read = by.total, by.fetched
	}
	total.Inc()
	read.Add(float64(fetched))
	c.evaluated.Add(float64(evaluated))
	c.returned.Add(float64(returned))
}
