package loader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/extension/policy"
)

const (
	// evaluatedPrefix is what the type of the condition begins with that tells what one server has counted of a policy
	// of admissionregistration.k8s.io. Upstream's status has no place for counts but this; a PolicyBinding has.
	evaluatedPrefix = "evaluated.weir.dev/"
	// reasonCounted is the reason of such conditions.
	reasonCounted = "Counted"
	// maxCountedError bounds the last error in such a condition, in bytes.
	maxCountedError = 1 << 10
)

// enqueueCountsLocked has the counts of policies written that have counted more.
func (l *Loader) enqueueCountsLocked() {
	for key, s := range l.policies.policies {
		if s.tally == nil {
			continue
		}
		if total := s.tally.Total(); total != s.told {
			s.told = total
			l.enqueueCounts(policyResourceOfKind(key.kind), key.name)
		}
	}
}

// enqueueCounts has the counts of a policy written.
func (l *Loader) enqueueCounts(gr schema.GroupResource, name string) {
	key := policyKey{policyKind(gr), name}
	l.status.enqueue("counts of "+key.kind+" "+name, func(ctx context.Context) error {
		return l.updateStatus(ctx, gr, name, func(old *document.Document) (any, error) {
			_, status, err := checkedOf(gr, old)
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			s := l.policies.policies[key]
			if s == nil || s.uid != status.uid || s.generation != status.generation {
				return nil, nil
			}
			counts := s.tally.Counts()
			l.countsCondition(status.ValidatingAdmissionPolicyStatus, s, &counts)
			return status.ValidatingAdmissionPolicyStatus, nil
		})
	})
}

// countsCondition tells what this server has counted: True where a request was judged as the policy says, False where
// none could be. Its time is when it was told last, and that of a server which tells nothing more is dropped.
func (l *Loader) countsCondition(status *admissionregistrationv1.ValidatingAdmissionPolicyStatus, s *policyState, counts *policy.Counts) {
	now := l.cfg.Clock.Now()
	own := metav1.Condition{Type: evaluatedPrefix + conditionName(l.cfg.ServerName), Status: metav1.ConditionTrue, Reason: reasonCounted,
		Message: countsText(s.since, counts), ObservedGeneration: s.generation, LastTransitionTime: metav1.NewTime(now)}
	if counts.Failed == counts.Total() {
		own.Status = metav1.ConditionFalse
	}
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Type == own.Type || (strings.HasPrefix(c.Type, evaluatedPrefix) && now.Sub(c.LastTransitionTime.Time) > tallyAge)
	})
	status.Conditions = append(status.Conditions, own)
}

// countsText spells counts on one line.
func countsText(since time.Time, c *policy.Counts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "since %s: allowed %d, denied %d, warned %d, changed %d, errors %d; took p50 %s, p99 %s, worst %s", since.UTC().Format(time.RFC3339),
		c.Allowed, c.Denied, c.Warned, c.Changed, c.Failed, rounded(c.Median), rounded(c.P99), rounded(c.Worst))
	if c.LastError != "" {
		fmt.Fprintf(&b, "; last error at %s: %s", c.LastErrorTime.UTC().Format(time.RFC3339), cut(c.LastError, maxCountedError))
	}
	return b.String()
}

// rounded is a time with as many digits as matter.
func rounded(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(100 * time.Nanosecond)
	}
	return d.Round(10 * time.Microsecond)
}

// conditionName makes the name of a server one that the type of a condition may have.
func conditionName(server string) string {
	const most = 63
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, server)
	if len(name) > most {
		name = name[:most]
	}
	if name = strings.Trim(name, "-_."); name == "" {
		return "server"
	}
	return name
}
