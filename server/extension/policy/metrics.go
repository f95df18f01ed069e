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
	checks    *checks
	durations *durations
}

// NewMetrics makes the collectors and registers them.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		checks: &checks{tallied: map[checked]*outcomeCounts{}, desc: prometheus.NewDesc("weir_admission_policy_checks_total",
			"Judgements of admission policies, by policy, binding and outcome: allow, deny, warn (a warning or an audit annotation tells), mutate, error (the failure policy refused), ignored_error (it let pass), shadow_deny and shadow_mutate (what would have been).",
			[]string{"kind", "policy", "binding", "outcome"}, nil)},
		durations: &durations{kinds: map[string]*timings{}, created: map[string]time.Time{}, desc: prometheus.NewDesc("weir_admission_policy_check_duration_seconds",
			"How long the judgements of admission policies took.", []string{"kind"}, nil)},
	}
	for _, c := range []prometheus.Collector{m.checks, m.durations} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Forget drops the series of a policy that is gone.
func (m *Metrics) Forget(kind, policy string) {
	if m != nil {
		m.checks.forget(kind, policy)
	}
}
