package policy

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// gathered is what a registry tells, without when its series began.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range families {
		for _, m := range f.Metric {
			began := func(m *dto.Metric) bool {
				return m.Counter != nil && m.Counter.CreatedTimestamp != nil || m.Histogram != nil && m.Histogram.CreatedTimestamp != nil
			}
			if !began(m) {
				t.Errorf("%s does not say when it began", m)
			}
			if m.Counter != nil {
				m.Counter.CreatedTimestamp = nil
			}
			if m.Histogram != nil {
				m.Histogram.CreatedTimestamp = nil
			}
		}
		out[f.GetName()] = f.String()
	}
	return out
}

// bare is a family without its help, and without its sum: one of whole nanoseconds is nearer than one of fractions.
func bare(family string) string {
	return strings.Join(strings.Fields(summed.ReplaceAllString(helped.ReplaceAllString(family, " "), "")), " ")
}

var (
	summed = regexp.MustCompile(`sample_sum:[^ ]+`)
	helped = regexp.MustCompile(`help:"[^"]*"`)
)

// TestMetricsAreThoseOfVectors: the series are those that a CounterVec and a HistogramVec have, which are told each judgement.
func TestMetricsAreThoseOfVectors(t *testing.T) {
	reg, plain := prometheus.NewRegistry(), prometheus.NewRegistry()
	m, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	const checksName, durationName = "weir_admission_policy_checks_total", "weir_admission_policy_check_duration_seconds"
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: checksName}, []string{"kind", "policy", "binding", "outcome"})
	histogram := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: durationName,
		Buckets: []float64{0.000005, 0.00002, 0.0001, 0.0005, 0.002, 0.01, 0.05, 0.25, 1}}, []string{"kind"})
	plain.MustRegister(counter, histogram)

	a := &Policy{Kind: "ValidatingAdmissionPolicy", Name: "a", Bindings: []*Binding{{Name: "x"}, {Name: "y"}}}
	b := &Policy{Kind: "Policy", Name: "a", Bindings: []*Binding{{Name: "x"}}}
	NewIndex([]*Policy{a, b})
	unlisted := &Policy{Kind: "Policy", Name: "u", Bindings: []*Binding{{Name: "x"}}}
	var x counting
	for i, p := range []*Policy{a, b, a, unlisted, a, b} {
		for j, outcome := range outcomes {
			for k, binding := range append([]*Binding{nil}, p.Bindings...) {
				for _, took := range append([]time.Duration{0, 3, 2 * time.Second}, timingBounds[:]...) {
					took += time.Duration(i+j+k) % 2 // at a bound, and above it
					x.observe(m, p, binding, outcome, took)
					name := ""
					if binding != nil {
						name = binding.Name
					}
					counter.WithLabelValues(p.Kind, p.Name, name, outcome).Inc()
					histogram.WithLabelValues(p.Kind).Observe(took.Seconds())
				}
			}
		}
	}
	x.flush(m)
	check := func() {
		t.Helper()
		got, want := gathered(t, reg), gathered(t, plain)
		for _, text := range []string{checksName, durationName} {
			if got, want := bare(got[text]), bare(want[text]); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
	}
	check()
	m.Forget("Policy", "a")
	counter.DeletePartialMatch(prometheus.Labels{"kind": "Policy", "policy": "a"})
	check()
	x.observe(m, b, b.Bindings[0], outcomeAllow, 1) // of an index that was
	histogram.WithLabelValues("Policy").Observe(1e-9)
	x.flush(m)
	check()
}

// TestMetricsOfARequest: all judgements of a request are in the metrics once it is answered.
func TestMetricsOfARequest(t *testing.T) {
	x, ctx, create := matching(t, 3)
	for range 2 {
		if err := x.Validate(ctx, create()); err != nil {
			t.Fatal(err)
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.metrics.checks, x.metrics.durations)
	allowed, timed := sums(t, reg)
	if allowed != 6 || timed != 6 {
		t.Errorf("%v allowed, %d timed, want 6", allowed, timed)
	}
}

// sums returns what all counters, and the counts of all histograms, are together.
func sums(t *testing.T, from prometheus.Gatherer) (counted float64, timed uint64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.Metric {
			counted, timed = counted+s.GetCounter().GetValue(), timed+s.GetHistogram().GetSampleCount()
		}
	}
	return counted, timed
}

// TestMetricsUnderLoad: what is counted while others read and forget is counted once.
func TestMetricsUnderLoad(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	stays := &Policy{Kind: "K", Name: "stays", Bindings: []*Binding{{Name: "x"}}}
	NewIndex([]*Policy{stays})
	const each, goroutines = 500, 4
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			var x counting
			for range each {
				x.observe(m, stays, stays.Bindings[0], outcomeAllow, time.Microsecond)
				x.flush(m)
				gone := &Policy{Kind: "K", Name: "gone", Bindings: []*Binding{{Name: "x"}}}
				x.observe(m, gone, gone.Bindings[0], outcomeDeny, time.Microsecond)
				m.Forget("K", "gone")
			}
			x.flush(m)
		})
		all.Go(func() {
			for range each / 10 {
				if _, err := reg.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	allowed, timed := sums(t, reg)
	if allowed != each*goroutines || timed != 2*each*goroutines {
		t.Errorf("%v allowed, %d timed", allowed, timed)
	}
}
