package policy

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// outcomes are those that are counted.
var outcomes = [...]string{outcomeAllow, outcomeDeny, outcomeError, outcomeIgnored, outcomeMutate, outcomeWarn, outcomeShadowDeny, outcomeShadowMutate} // never written to

// checks counts judgements. It is a prometheus.CounterVec whose counters of one binding lie together, so that to count is
// to touch one place.
type checks struct {
	desc    *prometheus.Desc
	mu      sync.Mutex
	tallied map[checked]*outcomeCounts // guarded by mu
}

// checked is who judges; binding is "" where a policy cannot be used at all.
type checked struct{ kind, policy, binding string }

// outcomeCounts are the judgements of one binding, and when the first was.
type outcomeCounts struct {
	counts  [len(outcomes)]atomic.Uint64
	created [len(outcomes)]atomic.Int64 // nanoseconds since 1970
}

var _ prometheus.Collector = (*checks)(nil)

// Describe implements prometheus.Collector.
func (c *checks) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector. An outcome that never was has no series.
func (c *checks) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, counted := range c.tallied {
		for i := range outcomes {
			if n, created := counted.counts[i].Load(), counted.created[i].Load(); created != 0 {
				to <- prometheus.MustNewConstMetricWithCreatedTimestamp(c.desc, prometheus.CounterValue, float64(n), time.Unix(0, created),
					of.kind, of.policy, of.binding, outcomes[i])
			}
		}
	}
}

// of returns the counts of a binding.
func (c *checks) of(who checked) *outcomeCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := c.tallied[who]
	if counted == nil {
		counted = &outcomeCounts{}
		c.tallied[who] = counted
	}
	return counted
}

// forget drops the counts of a policy.
func (c *checks) forget(kind, policy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of := range c.tallied {
		if of.kind == kind && of.policy == policy {
			delete(c.tallied, of)
		}
	}
}

// add counts a judgement.
func (c *outcomeCounts) add(outcome string) {
	i := slices.Index(outcomes[:], outcome)
	if i < 0 {
		return
	}
	if c.counts[i].Add(1) == 1 {
		c.created[i].Store(time.Now().UnixNano())
	}
}

// series are the counts of a policy of an index, by binding, the last without one. To find one by its labels takes as long
// as a small expression, so each is found once. They end with the index: what Metrics.Forget has dropped comes back in none.
type series []atomic.Pointer[outcomeCounts]

func newSeries(bindings int) series { return make(series, bindings+1) }

// counts returns the counts of a binding, nil for those without one.
func (s series) counts(c *checks, p *Policy, b *Binding) *outcomeCounts {
	at, who := len(s)-1, checked{kind: p.Kind, policy: p.Name}
	if b != nil {
		at = slices.Index(p.Bindings, b)
		who.binding = b.Name
	}
	if at < 0 || at >= len(s) { // it is in no index
		return c.of(who)
	}
	if known := s[at].Load(); known != nil {
		return known
	}
	counted := c.of(who)
	s[at].Store(counted)
	return counted
}

// timingBounds are the upper bounds of the histogram.
var timingBounds = [...]time.Duration{5 * time.Microsecond, 20 * time.Microsecond, 100 * time.Microsecond, 500 * time.Microsecond, 2 * time.Millisecond,
	10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond, time.Second} // never written to

// timings are judgements by how long they took.
type timings struct {
	counts [len(timingBounds) + 1]uint64
	sum    time.Duration
}

func (t *timings) add(took time.Duration) {
	i := 0
	for i < len(timingBounds) && took > timingBounds[i] {
		i++
	}
	t.counts[i]++
	t.sum += took
}

// durations is a prometheus.HistogramVec that takes the judgements of one request at once: a histogram is four places that
// all processors write to, for each of a hundred policies.
type durations struct {
	desc    *prometheus.Desc
	mu      sync.Mutex
	kinds   map[string]*timings  // guarded by mu
	created map[string]time.Time // guarded by mu
}

var _ prometheus.Collector = (*durations)(nil)

// Describe implements prometheus.Collector.
func (d *durations) Describe(to chan<- *prometheus.Desc) { to <- d.desc }

// Collect implements prometheus.Collector.
func (d *durations) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	kinds, created := make(map[string]timings, len(d.kinds)), maps.Clone(d.created)
	for kind, t := range d.kinds {
		kinds[kind] = *t
	}
	d.mu.Unlock()
	for kind, t := range kinds {
		buckets, n := make(map[float64]uint64, len(timingBounds)), uint64(0)
		for i, bound := range timingBounds {
			n += t.counts[i]
			buckets[bound.Seconds()] = n
		}
		to <- prometheus.MustNewConstHistogramWithCreatedTimestamp(d.desc, n+t.counts[len(timingBounds)], t.sum.Seconds(), buckets, created[kind], kind)
	}
}

// add counts judgements by policies of a kind.
func (d *durations) add(kind string, more *timings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.kinds[kind]
	if t == nil {
		t = &timings{}
		d.kinds[kind], d.created[kind] = t, time.Now()
	}
	for i, n := range more.counts {
		t.counts[i] += n
	}
	t.sum += more.sum
}

// counting are the judgements of one request that are not in the metrics yet, by policies of one kind. One goroutine uses
// it.
type counting struct {
	kind  string
	timed timings
	any   bool
}

// observe counts a judgement. The last ones are in the metrics after flush.
func (x *counting) observe(m *Metrics, p *Policy, b *Binding, outcome string, took time.Duration) {
	if m == nil {
		return
	}
	p.series.counts(m.checks, p, b).add(outcome)
	if x.any && x.kind != p.Kind {
		x.flush(m)
	}
	x.kind, x.any = p.Kind, true
	x.timed.add(took)
}

// flush gives the metrics what was counted.
func (x *counting) flush(m *Metrics) {
	if x.any {
		m.durations.add(x.kind, &x.timed)
		*x = counting{}
	}
}
