package policy

import (
	"context"
	"encoding/json"
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

// auditor collects the audit annotations of one request.
type auditor struct {
	failures    []auditFailure
	shadows     []auditFailure
	annotations []auditAnnotation
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

// shadowAnnotation is the key of what bindings in shadow would have denied.
const shadowAnnotation = "shadow.policy.weir.dev/validation_failure"

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

func (x *auditor) publish(ctx context.Context) {
	for _, a := range x.annotations {
		audit.AddAuditAnnotation(ctx, a.key, strings.Join(a.values, ", "))
	}
	for _, list := range []struct {
		key      string
		failures []auditFailure
	}{{failureAnnotation, x.failures}, {shadowAnnotation, x.shadows}} {
		if len(list.failures) == 0 {
			continue
		}
		if text, err := json.Marshal(list.failures); err == nil {
			audit.AddAuditAnnotation(ctx, list.key, string(text))
		}
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
