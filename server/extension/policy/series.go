package policy

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// outcomes are those that are counted.
var outcomes = [...]string{outcomeAllow, outcomeDeny, outcomeError, outcomeIgnored, outcomeMutate, outcomeWarn, outcomeShadowDeny, outcomeShadowMutate} // never written to

// series are the metrics of one policy of an index. To find one by its labels takes as long as a small expression, so
// each is found once. They end with the index: what Metrics.Forget has dropped comes back in none.
type series struct {
	duration atomic.Pointer[prometheus.Observer]
	// checks by binding, the last without one, and outcome.
	checks [][len(outcomes)]atomic.Pointer[prometheus.Counter]
}

func newSeries(bindings int) *series {
	return &series{checks: make([][len(outcomes)]atomic.Pointer[prometheus.Counter], bindings+1)}
}

// check returns the counter of an outcome.
func (s *series) check(m *Metrics, p *Policy, b *Binding, outcome string) prometheus.Counter {
	of, name := len(s.checks)-1, ""
	if b != nil {
		name = b.Name
		if i := slices.Index(p.Bindings, b); i >= 0 {
			of = i
		}
	}
	i := slices.Index(outcomes[:], outcome)
	if i < 0 || of >= len(s.checks) || (b != nil && of == len(s.checks)-1) {
		return m.checks.WithLabelValues(p.Kind, p.Name, name, outcome)
	}
	slot := &s.checks[of][i]
	if known := slot.Load(); known != nil {
		return *known
	}
	c := m.checks.WithLabelValues(p.Kind, p.Name, name, outcome)
	slot.Store(&c)
	return c
}

// timing returns the histogram of the policy's kind.
func (s *series) timing(m *Metrics, p *Policy) prometheus.Observer {
	if known := s.duration.Load(); known != nil {
		return *known
	}
	o := m.duration.WithLabelValues(p.Kind)
	s.duration.Store(&o)
	return o
}
