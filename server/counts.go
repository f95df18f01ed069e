package server

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countMetrics say how many objects each resource has, and how large they are, under upstream's names.
type countMetrics struct {
	objects    *prometheus.GaugeVec // by group and resource
	sizes      *prometheus.GaugeVec // by group and resource
	deprecated *prometheus.GaugeVec // by resource.group

	// last is what the cache of a resource held when it was last asked while it ran. guarded by the mu of storages
	last map[schema.GroupResource]held
}

// held is what a cache holds.
type held struct{ rows, bytes int64 }

// estimate returns the size of n objects: that of the rows which were seen, or where these were not as many, as much for
// each. -1: it is not known.
func (h held) estimate(n int64) float64 {
	switch {
	case n == 0:
		return 0
	case n < 0 || h.rows == 0:
		return -1
	}
	return float64(h.bytes) * float64(n) / float64(h.rows)
}

func newCountMetrics(registerer prometheus.Registerer) (*countMetrics, error) {
	const help = "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1."
	m := &countMetrics{
		last:    map[schema.GroupResource]held{},
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_resource_objects", Help: help}, []string{"group", "resource"}),
		sizes: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_resource_size_estimate_bytes",
			Help: "Estimated size of stored objects in database. Estimate is based on sum of last observed sizes of serialized objects. In case of a fetching error, the value will be -1."}, []string{"group", "resource"}),
		deprecated: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_storage_objects",
			Help: "[DEPRECATED, consider using apiserver_resource_objects instead] " + help}, []string{"resource"}),
	}
	return m, errors.Join(registerer.Register(m.objects), registerer.Register(m.sizes), registerer.Register(m.deprecated))
}

// set tells that there are n objects, -1: that it is not known, and what the cache of the resource holds, where it runs.
func (m *countMetrics) set(gr schema.GroupResource, n int64, now held, running bool) {
	if running {
		m.last[gr] = now
	}
	m.sizes.WithLabelValues(gr.Group, gr.Resource).Set(m.last[gr].estimate(n))
	m.objects.WithLabelValues(gr.Group, gr.Resource).Set(float64(n))
	m.deprecated.WithLabelValues(gr.String()).Set(float64(n))
}

// forget removes the series of a resource that is served no more.
func (m *countMetrics) forget(gr schema.GroupResource) {
	delete(m.last, gr)
	m.objects.DeleteLabelValues(gr.Group, gr.Resource)
	m.sizes.DeleteLabelValues(gr.Group, gr.Resource)
	m.deprecated.DeleteLabelValues(gr.String())
}

// count counts the objects of all resources every now and then, until ctx is done. A cache that runs is asked, else
// etcd, which only counts keys; their sizes are only known of a cache. It starts no cache and keeps none running.
func (s *storages) count(ctx context.Context) {
	period := s.config.CountPollPeriod
	if period <= 0 {
		return
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		for gr, c := range s.list() {
			n, err := c.storage.Count(ctx, c.rows.prefix+"/")
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				n = -1
			}
			var now held
			running := false
			if c.cacher != nil {
				now.rows, now.bytes, running = c.cacher.Sizes()
			}
			s.counted(gr, c, n, now, running)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// counted notes a count, unless the resource has been dropped meanwhile.
func (s *storages) counted(gr schema.GroupResource, c *cachedStorage, n int64, now held, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[gr] == c {
		s.counts.set(gr, n, now, running)
	}
}
