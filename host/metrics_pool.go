package host

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"weir.dev/weir/host/internal/pool"
)

// restores count how guests of a module were put back.
type restores struct {
	calls, bytes atomic.Uint64
}

// add counts one, as snapshot.Memory.Restored has it.
func (r *restores) add(bytes int) {
	r.calls.Add(1)
	if bytes > 0 {
		r.bytes.Add(uint64(bytes))
	}
}

// poolCounts are what is counted of the pool of a module.
type poolCounts struct {
	pool.Counts
	restores, restoredBytes uint64
}

func (c *poolCounts) add(o poolCounts) {
	c.Counts.Add(o.Counts)
	c.restores += o.restores
	c.restoredBytes += o.restoredBytes
}

// poolStats are the state of a module's pool.
func (m *Module) poolStats() (idle, lent int, counts poolCounts) {
	s := m.pool.Stats()
	return s.Idle, s.Lent, poolCounts{s.Counts, m.restores.calls.Load(), m.restores.bytes.Load()}
}

var (
	guestsDesc = prometheus.NewDesc("weir_host_guests",
		"Guests by module and state: idle, or lent to a call.", []string{"module", "state"}, nil)
	guestsMadeDesc = prometheus.NewDesc("weir_host_guests_made_total",
		"Guests made for calls.", []string{"module"}, nil)
	guestsDiscardedDesc = prometheus.NewDesc("weir_host_guests_discarded_total",
		"Guests discarded, by reason: call (what it did cannot be put back) or idle (no call needed it).", []string{"module", "reason"}, nil)
	guestWaitsDesc = prometheus.NewDesc("weir_host_guest_waits_total",
		"Calls that had to wait because all guests of their module were lent.", []string{"module"}, nil)
	restoresDesc = prometheus.NewDesc("weir_host_restores_total",
		"Guests put back after a call.", []string{"module"}, nil)
	restoredBytesDesc = prometheus.NewDesc("weir_host_restored_bytes_total",
		"Bytes written to put guests back, without what was left to the system.", []string{"module"}, nil)
)

// poolCollector reads the pools of a Runtime when its metrics are collected, so
// that a call pays for none of it.
type poolCollector struct{ r *Runtime }

// Describe implements prometheus.Collector.
func (poolCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{guestsDesc, guestsMadeDesc, guestsDiscardedDesc, guestWaitsDesc, restoresDesc, restoredBytesDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c poolCollector) Collect(to chan<- prometheus.Metric) {
	type sum struct {
		idle, lent int
		poolCounts
	}
	all := map[string]*sum{} // modules that replace each other have one name
	c.r.mu.Lock()
	for m := range c.r.modules {
		s := all[m.config.Name]
		if s == nil {
			s = &sum{poolCounts: c.r.past[m.config.Name]}
			all[m.config.Name] = s
		}
		idle, lent, counts := m.poolStats()
		s.idle += idle
		s.lent += lent
		s.add(counts)
	}
	c.r.mu.Unlock()
	for name, s := range all {
		gauge := func(state string, n int) {
			to <- prometheus.MustNewConstMetric(guestsDesc, prometheus.GaugeValue, float64(n), name, state)
		}
		counter := func(d *prometheus.Desc, n uint64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{name}, labels...)...)
		}
		gauge("idle", s.idle)
		gauge("lent", s.lent)
		counter(guestsMadeDesc, s.Made)
		counter(guestsDiscardedDesc, s.Discarded, "call")
		counter(guestsDiscardedDesc, s.Trimmed, "idle")
		counter(guestWaitsDesc, s.Waits)
		counter(restoresDesc, s.restores)
		counter(restoredBytesDesc, s.restoredBytes)
	}
}
