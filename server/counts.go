package server

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countMetrics say how many objects each resource has, under upstream's names.
type countMetrics struct {
	objects    *prometheus.GaugeVec // by group and resource
	deprecated *prometheus.GaugeVec // by resource.group
}

func newCountMetrics(registerer prometheus.Registerer) (*countMetrics, error) {
	const help = "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1."
	m := &countMetrics{
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_resource_objects", Help: help}, []string{"group", "resource"}),
		deprecated: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_storage_objects",
			Help: "[DEPRECATED, consider using apiserver_resource_objects instead] " + help}, []string{"resource"}),
	}
	return m, errors.Join(registerer.Register(m.objects), registerer.Register(m.deprecated))
}

func (m *countMetrics) set(gr schema.GroupResource, n int64) {
	m.objects.WithLabelValues(gr.Group, gr.Resource).Set(float64(n))
	m.deprecated.WithLabelValues(gr.String()).Set(float64(n))
}

// forget removes the series of a resource that is served no more.
func (m *countMetrics) forget(gr schema.GroupResource) {
	m.objects.DeleteLabelValues(gr.Group, gr.Resource)
	m.deprecated.DeleteLabelValues(gr.String())
}

// count counts the objects of all resources every now and then, until ctx is done. A cache that runs is asked, else
// etcd, which only counts keys. It starts no cache and keeps none running.
func (s *storages) count(ctx context.Context) {
	period := s.config.CountPollPeriod
	if period <= 0 {
		return
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		for gr, c := range s.list() {
			n, err := c.storage.Count(ctx, c.prefix+"/")
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				n = -1
			}
			s.counted(gr, c, n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// counted notes a count, unless the resource has been dropped meanwhile.
func (s *storages) counted(gr schema.GroupResource, c *cachedStorage, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[gr] == c {
		s.counts.set(gr, n)
	}
}
