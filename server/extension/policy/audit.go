package policy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/audit"
)

const (
	// failureAnnotation is the key of what bindings with the action Audit found.
	failureAnnotation = "validation.policy.admission.k8s.io/validation_failure"
	// maxAuditFailures and maxAnnotationBytes are upstream's bounds.
	maxAuditFailures   = 50
	maxAnnotationBytes = 10 << 10
)

// Keys of what bindings in shadow would have done: what they would have denied, the paths that they would have changed,
// and where they would have failed to.
const (
	shadowAnnotation         = "shadow.policy.weir.dev/validation_failure"
	shadowMutationAnnotation = "shadow.policy.weir.dev/mutation"
	shadowMutatorAnnotation  = "shadow.policy.weir.dev/mutation_failure"
)

// auditor collects the audit annotations of one request: of its validating policies, or of its mutating ones.
type auditor struct {
	failures    []auditFailure
	shadows     []auditFailure
	annotations []auditAnnotation
	// changes are what mutating policies in shadow would have done, refusals what they would have refused.
	changes, refusals []auditMutation
}

// auditFailure is an item of failureAnnotation, spelled as upstream's.
type auditFailure struct {
	Message           string   `json:"message"`
	Policy            string   `json:"policy"`
	Binding           string   `json:"binding"`
	ExpressionIndex   int      `json:"expressionIndex"`
	ValidationActions []string `json:"validationActions"`
}

type auditAnnotation struct {
	key    string
	values []string
}

func (x *auditor) failure(p *Policy, b *Binding, index int, message string) {
	if len(x.failures) < maxAuditFailures {
		x.failures = append(x.failures, auditFailure{Message: message, Policy: p.Name, Binding: b.Name,
			ExpressionIndex: max(index, 0), ValidationActions: b.actions()})
	}
}

// auditMutation is an item of shadowMutationAnnotation, whose message has the paths, and of shadowMutatorAnnotation.
type auditMutation struct {
	Message string `json:"message"`
	Policy  string `json:"policy"`
	Binding string `json:"binding"`
}

// shadowMutation notes what a mutating policy in shadow would have done, or refused.
func (x *auditor) shadowMutation(p *Policy, b *Binding, outcome, message string) {
	list := &x.changes
	if outcome == outcomeShadowDeny {
		list = &x.refusals
	}
	m := auditMutation{Message: message, Policy: p.Name}
	if b != nil {
		m.Binding = b.Name
	}
	if len(*list) < maxAuditFailures && !slices.Contains(*list, m) { // it may run twice
		*list = append(*list, m)
	}
}

// shadow notes what a binding would have denied.
func (x *auditor) shadow(p *Policy, b *Binding, message string) {
	if len(x.shadows) < maxAuditFailures {
		x.shadows = append(x.shadows, auditFailure{Message: message, Policy: p.Name, Binding: b.Name, ValidationActions: b.actions()})
	}
}

// annotate adds a value of a key of a policy. Bindings and params may give several; equal ones count once.
func (x *auditor) annotate(policy, key, value string) {
	if len(value) > maxAnnotationBytes {
		value = value[:maxAnnotationBytes]
	}
	key = policy + "/" + key
	for i := range x.annotations {
		if a := &x.annotations[i]; a.key == key {
			for _, v := range a.values {
				if v == value {
					return
				}
			}
			a.values = append(a.values, value)
			return
		}
	}
	x.annotations = append(x.annotations, auditAnnotation{key: key, values: []string{value}})
}

// publish tells the audit event of a request, where there is one.
func (x *auditor) publish(ctx context.Context) {
	if !audit.AuditContextFrom(ctx).Enabled() {
		return
	}
	for _, a := range x.annotations {
		audit.AddAuditAnnotation(ctx, a.key, strings.Join(a.values, ", "))
	}
	publishList(ctx, failureAnnotation, x.failures)
	publishList(ctx, shadowAnnotation, x.shadows)
	publishList(ctx, shadowMutationAnnotation, x.changes)
	publishList(ctx, shadowMutatorAnnotation, x.refusals)
}

func publishList[T any](ctx context.Context, key string, list []T) {
	if len(list) == 0 {
		return
	}
	if text, err := json.Marshal(list); err == nil { // of strings and numbers, which marshal
		audit.AddAuditAnnotation(ctx, key, string(text))
	}
}

// actions are spelled as in a binding.
func (b *Binding) actions() []string {
	var list []string
	for _, action := range []struct {
		set  bool
		name string
	}{{b.Deny, "Deny"}, {b.Warn, "Warn"}, {b.Audit, "Audit"}} {
		if action.set {
			list = append(list, action.name)
		}
	}
	return list
}
