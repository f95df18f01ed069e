package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of one judgement, for metrics.
const (
	outcomeAllow   = "allow"
	outcomeDeny    = "deny"
	outcomeError   = "error"
	outcomeIgnored = "ignored_error"
	outcomeMutate  = "mutate"
	// outcomeWarn is a denial of which only a warning or an audit annotation tells.
	outcomeWarn = "warn"
	// What a shadow saw.
	outcomeShadowDeny   = "shadow_deny"
	outcomeShadowMutate = "shadow_mutate"
)

// Metrics are the collectors of all policies of a server.
type Metrics struct {
	checks   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics makes the collectors and registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_admission_policy_checks_total",
			Help: "Judgements of admission policies, by policy, binding and outcome: allow, deny, warn (a warning or an audit annotation tells), mutate, error (the failure policy refused), ignored_error (it let pass), shadow_deny and shadow_mutate (what would have been)."},
			[]string{"kind", "policy", "binding", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_admission_policy_check_duration_seconds",
			Help:    "How long the judgements of admission policies took.",
			Buckets: []float64{0.000005, 0.00002, 0.0001, 0.0005, 0.002, 0.01, 0.05, 0.25, 1}},
			[]string{"kind"}),
	}
	for _, c := range []prometheus.Collector{m.checks, m.duration} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts a judgement. Nil counts nothing.
func (m *Metrics) observe(p *Policy, b *Binding, outcome string, took time.Duration) {
	if m == nil {
		return
	}
	s := p.series
	if s == nil { // it is in no index
		s = newSeries(0)
	}
	s.check(m, p, b, outcome).Inc()
	s.timing(m, p).Observe(took.Seconds())
}

// Forget drops the series of a policy that is gone.
func (m *Metrics) Forget(kind, policy string) {
	if m != nil {
		m.checks.DeletePartialMatch(prometheus.Labels{"kind": kind, "policy": policy})
	}
}
