package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension/policy"
)

// enqueuePolicyStatus has the conditions of a Policy written.
func (l *Loader) enqueuePolicyStatus(name string) {
	l.status.enqueue("Policy "+name, func(ctx context.Context) error {
		return l.updateStatus(ctx, weirPolicies, name, func(old *document.Document) (any, error) {
			object, err := decodePolicy(old)
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			s := l.policies.policies[policyKey{"Policy", name}]
			if s == nil || s.uid != object.UID {
				return nil, nil
			}
			l.policyStatus(&object.Status, s)
			return &object.Status, nil
		})
	})
}

// policyStatus says whether the newest generation judges.
func (l *Loader) policyStatus(status *v1alpha1.PolicyStatus, s *policyState) {
	status.ObservedGeneration, status.InForce, status.Digest, status.LastError = s.generation, s.judges, s.digest, ""
	status.LastErrorTime = nil
	ready := metav1.Condition{Type: v1alpha1.PolicyReady, Status: metav1.ConditionTrue, Reason: reasonInForce, Message: "every request that it concerns meets this generation"}
	if s.err != nil {
		status.LastError = bounded(s.err.Error())
		at := metav1.NewTime(s.erred)
		status.LastErrorTime = &at
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonRefused, status.LastError
		switch {
		case s.judges > 0:
			ready.Reason = reasonLastKnownGood
			ready.Message = bounded(fmt.Sprintf("generation %d stays in force: %s", s.judges, status.LastError))
		case errors.Is(s.err, errLoading):
			ready.Status, ready.Reason = metav1.ConditionUnknown, reasonInProgress
		default:
			ready.Message = bounded("its failure policy decides, since it cannot judge: " + status.LastError)
		}
	}
	noParamKind(&ready, l.paramKindMissingLocked(s.weir.Spec.ParamKind))
	if s.weir.Spec.Wasm != nil {
		l.withoutGrantLocked(&ready, s.weir.Spec.Wasm.Module)
	}
	if l.cfg.SuspendPolicies {
		status.InForce = 0
		suspend(&ready)
	}
	setCondition(&status.Conditions, ready, s.generation, l.cfg.Clock.Now())
}

// suspend has a condition say that the server was started without policies.
func suspend(ready *metav1.Condition) {
	ready.Status, ready.Reason = metav1.ConditionFalse, reasonSuspended
	ready.Message = "nothing is judged until the server is started without --suspend-policies"
}

const (
	// tallyPause is the time between two looks at what bindings have counted.
	tallyPause = 10 * time.Second
	// tallyAge is how long the counts of a server that tells nothing more are kept.
	tallyAge = time.Hour
)

// followTallies writes the counts of bindings to their status, those that have changed.
func (l *Loader) followTallies(ctx context.Context) {
	ticker := l.cfg.Clock.NewTicker(tallyPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			l.enqueueTallies()
		case <-ctx.Done():
			l.enqueueTallies() // the last that this server has counted
			return
		}
	}
}

// enqueueBindingsOfLocked has the status of the bindings of a Policy written.
func (l *Loader) enqueueBindingsOfLocked(policy string) {
	for key, b := range l.policies.bindings {
		if key.kind == "Policy" && b.policy == policy {
			l.enqueueBindingStatus(key.name)
		}
	}
}

func (l *Loader) enqueueTallies() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enqueueCountsLocked()
	for key, b := range l.policies.bindings {
		if b.binding.Tally == nil {
			continue
		}
		counts := b.binding.Tally.Counts()
		if counts.Total() == b.told {
			continue
		}
		b.told = counts.Total()
		l.enqueueBindingStatus(key.name)
	}
}

// enqueueBindingStatus has the counts of a PolicyBinding written.
func (l *Loader) enqueueBindingStatus(name string) {
	l.status.enqueue("PolicyBinding "+name, func(ctx context.Context) error {
		return l.updateStatus(ctx, weirBindings, name, func(old *document.Document) (any, error) {
			object := &v1alpha1.PolicyBinding{}
			if err := json.Unmarshal(old.Bytes(), object); err != nil {
				return nil, fmt.Errorf("not a PolicyBinding: %w", err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			b := l.policies.bindings[policyKey{"Policy", name}]
			if b == nil || b.uid != object.UID {
				return nil, nil
			}
			now := l.cfg.Clock.Now()
			status := &object.Status
			status.ObservedGeneration = b.generation
			l.bindingConditionLocked(status, b)
			status.Servers = slices.DeleteFunc(status.Servers, func(c v1alpha1.PolicyBindingCounts) bool {
				return c.Server == l.cfg.ServerName || now.Sub(c.Until.Time) > tallyAge
			})
			status.Servers = append(status.Servers, l.countsOf(b, now))
			return status, nil
		})
	})
}

// bindingConditionLocked says whether a binding puts its policy in force.
func (l *Loader) bindingConditionLocked(status *v1alpha1.PolicyBindingStatus, b *bindingState) {
	ready := metav1.Condition{Type: v1alpha1.PolicyBindingReady, Status: metav1.ConditionFalse}
	s := l.policies.policies[policyKey{"Policy", b.policy}]
	switch {
	case s == nil:
		ready.Reason, ready.Message = reasonPolicyNotFound, fmt.Sprintf("there is no Policy %q", b.policy)
	case b.binding.Err != nil:
		ready.Reason, ready.Message = reasonRefused, bounded(b.binding.Err.Error())
	case s.judges == 0 && errors.Is(s.err, errLoading):
		ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, reasonInProgress, bounded(s.err.Error())
	case s.judges == 0:
		ready.Reason, ready.Message = reasonPolicyNotReady, bounded(fmt.Sprintf("Policy %q cannot judge, and its failure policy decides: %v", b.policy, s.err))
	default:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, reasonInForce, "every request that it concerns is judged by it"
		if b.binding.Params != nil {
			noParamKind(&ready, l.paramKindMissingLocked(s.weir.Spec.ParamKind))
		}
	}
	if l.cfg.SuspendPolicies {
		suspend(&ready)
	}
	setCondition(&status.Conditions, ready, b.generation, l.cfg.Clock.Now())
}

// countsOf spells what a binding has counted.
func (l *Loader) countsOf(b *bindingState, now time.Time) v1alpha1.PolicyBindingCounts {
	c := b.binding.Tally.Counts()
	out := v1alpha1.PolicyBindingCounts{
		Server: l.cfg.ServerName, Since: metav1.NewTime(b.since), Until: metav1.NewTime(now),
		Allowed: c.Allowed, Denied: c.Denied, Warned: c.Warned, Changed: c.Changed, Failed: c.Failed, ShadowDenied: c.ShadowDenied, ShadowChanged: c.ShadowChanged,
		MedianMicroseconds: c.Median.Microseconds(), P99Microseconds: c.P99.Microseconds(), WorstMicroseconds: c.Worst.Microseconds(),
		LastError: c.LastError, Conflicts: c.Conflicts,
	}
	if !c.LastErrorTime.IsZero() {
		at := metav1.NewTime(c.LastErrorTime)
		out.LastErrorTime = &at
	}
	for i := range c.Samples {
		out.Samples = append(out.Samples, sampleOf(&c.Samples[i]))
	}
	return out
}

// countedBefore is what this server had counted of the generation of a binding before it was started anew.
func (l *Loader) countedBefore(b *v1alpha1.PolicyBinding) (counts policy.Counts, since time.Time) {
	since = l.cfg.Clock.Now()
	if b.Status.ObservedGeneration != b.Generation {
		return counts, since
	}
	for i := range b.Status.Servers {
		s := &b.Status.Servers[i]
		if s.Server != l.cfg.ServerName {
			continue
		}
		counts = policy.Counts{Allowed: s.Allowed, Denied: s.Denied, Warned: s.Warned, Changed: s.Changed, Failed: s.Failed, ShadowDenied: s.ShadowDenied, ShadowChanged: s.ShadowChanged,
			Worst: time.Duration(s.WorstMicroseconds) * time.Microsecond, LastError: s.LastError, Conflicts: s.Conflicts}
		if s.LastErrorTime != nil {
			counts.LastErrorTime = s.LastErrorTime.Time
		}
		for _, from := range s.Samples {
			resource, subresource, _ := strings.Cut(from.Resource, "/")
			counts.Samples = append(counts.Samples, policy.Sample{Time: from.Time.Time, Operation: from.Operation, Resource: resource, Subresource: subresource,
				Namespace: from.Namespace, Name: from.Name, Message: from.Message})
		}
		return counts, s.Since.Time
	}
	return counts, since
}

func sampleOf(s *policy.Sample) v1alpha1.PolicySample {
	resource := s.Resource
	if s.Subresource != "" {
		resource += "/" + s.Subresource
	}
	return v1alpha1.PolicySample{Time: metav1.NewTime(s.Time), Operation: s.Operation, Resource: resource, Namespace: s.Namespace, Name: s.Name, Message: s.Message}
}
