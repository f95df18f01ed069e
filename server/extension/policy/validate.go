package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
)

// The kinds of policy in admissionregistration.k8s.io.
const (
	validatingKind = "ValidatingAdmissionPolicy"
	mutatingKind   = "MutatingAdmissionPolicy"
)

// Validate implements admission.Validator.
func (x *Admission) Validate(ctx context.Context, a *admission.Attributes) error {
	found, catalog := x.candidates(ctx, a)
	if found.validating.isEmpty() {
		return nil
	}
	q := x.inquire(ctx, a, catalog)
	defer q.end()
	open := found.validating.open(q)
	if len(open) == 0 {
		return nil
	}
	v := validation{evaluation: q.begin()}
	for _, p := range open {
		if err := v.policy(p); err != nil {
			return err
		}
	}
	v.audit.publish(ctx)
	if len(v.denials) > 0 {
		return deny(a, v.denials)
	}
	return nil
}

// validation is what the validating policies say of one request.
type validation struct {
	*evaluation
	denials []denial
	audit   auditor
}

// policy judges by all bindings of a policy. Its error ends the request; what the policy refuses is in denials.
func (v *validation) policy(p *Policy) error {
	as, ok, err := p.matches(v.evaluation)
	switch {
	case err != nil:
		v.misconfigured(p, nil, err)
		return nil
	case !ok:
		return nil
	case p.Err != nil:
		v.misconfigured(p, nil, p.Err)
		return nil
	}
	if err := v.paramKindServed(p); err != nil {
		v.misconfigured(p, nil, err)
		return nil
	}
	judge, ok := p.Judge.(policies.Judge)
	if !ok {
		v.misconfigured(p, nil, errors.New("it has nothing to judge by"))
		return nil
	}
	v.held.Reset()
	for _, b := range p.Bindings {
		params, ok, err := v.bound(p, b)
		switch {
		case err != nil:
			v.misconfigured(p, b, err)
			continue
		case !ok || len(params) == 0:
			continue
		}
		seen, err := v.view(as)
		if err != nil {
			v.misconfigured(p, b, err)
			continue
		}
		v.shared = len(p.Bindings) > 1 || len(params) > 1
		for _, param := range params {
			if err := v.judge(p, b, judge, seen, param); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge judges by one param.
func (v *validation) judge(p *Policy, b *Binding, judge policies.Judge, seen *view, param *document.Document) error {
	started := v.start()
	review, err := v.review(p, seen, param)
	if err != nil && !v.overdue() {
		return err
	}
	var decision *policies.Decision
	if err == nil {
		decision, err = judge.Judge(v.ctx, review)
	}
	if err != nil {
		if v.abandoned() {
			return timeout(v.ctx)
		}
		if unread := v.unread(err); unread != nil {
			return unread
		}
		v.fail(p, b, -1, policies.Denial{Message: err.Error(), Err: err}, started)
		return nil
	}
	if !b.enforces(v.attributes) {
		v.shadow(p, b, decision, started)
		return nil
	}
	for _, w := range decision.Warnings {
		warning.AddWarning(v.ctx, "", w)
	}
	if len(decision.Denials) == 0 {
		v.observe(p, b, outcomeAllow, "", started)
	}
	for i := range decision.Denials {
		v.fail(p, b, validationOf(&decision.Denials[i], i), decision.Denials[i], started)
	}
	for _, annotation := range decision.AuditAnnotations {
		switch {
		case annotation.Err == nil:
			v.audit.annotate(p.Name, annotation.Key, annotation.Value)
		case !p.FailOpen:
			v.denials = append(v.denials, denial{policy: p, binding: b, message: annotation.Err.Error()})
			v.observe(p, b, outcomeError, annotation.Err.Error(), started)
		}
	}
	return nil
}

// validationOf is the index of the validation that denies, or, where the policy has none, that of the denial.
func validationOf(d *policies.Denial, index int) int {
	var at int
	if _, err := fmt.Sscanf(d.Path, "spec.validations[%d]", &at); err == nil {
		return at
	}
	return index
}

// shadow notes what a decision would have done.
func (v *validation) shadow(p *Policy, b *Binding, d *policies.Decision, started time.Duration) {
	for i := range d.Denials {
		denial := &d.Denials[i]
		if denial.Err != nil && p.FailOpen {
			v.observe(p, b, outcomeIgnored, denial.Message, started)
			continue
		}
		v.observe(p, b, outcomeShadowDeny, denial.Message, started)
		v.audit.shadow(p, b, denial.Message)
		return // one request is one
	}
	if len(d.Denials) == 0 {
		v.observe(p, b, outcomeAllow, "", started)
	}
}

// fail does what the binding says of a failed validation.
func (v *validation) fail(p *Policy, b *Binding, index int, d policies.Denial, started time.Duration) {
	outcome, reason := outcomeDeny, metav1.StatusReason(d.Reason)
	if d.Err != nil {
		if v.ignored(p, b, d.Message, started) {
			return
		}
		outcome, reason = outcomeError, ""
	}
	if !b.enforces(v.attributes) {
		v.observe(p, b, outcomeShadowDeny, d.Message, started)
		v.audit.shadow(p, b, d.Message)
		return
	}
	v.observe(p, b, outcome, d.Message, started)
	if b.Deny {
		v.denials = append(v.denials, denial{policy: p, binding: b, message: d.Message, reason: reason, code: d.Code, field: d.Field})
	}
	if b.Audit {
		v.audit.failure(p, b, index, d.Message)
	}
	if b.Warn {
		warning.AddWarning(v.ctx, "", fmt.Sprintf("Validation failed for %s '%s' with binding '%s': %s", p.Kind, p.Name, b.Name, d.Message))
	}
}

// ignored reports, and counts, that the failure policy lets a request pass that could not be judged.
func (e *evaluation) ignored(p *Policy, b *Binding, message string, started time.Duration) bool {
	if p.FailOpen {
		e.observe(p, b, outcomeIgnored, message, started)
	}
	return p.FailOpen
}

// misconfigured denies, as the failure policy says, by a policy or binding that cannot be used. A shadow denies nothing.
func (v *validation) misconfigured(p *Policy, b *Binding, err error) {
	if d, ok := v.misconfiguration(p, b, err); ok {
		v.denials = append(v.denials, d)
	}
}

// misconfiguration is the denial by a policy or binding that cannot be used, where it denies.
func (e *evaluation) misconfiguration(p *Policy, b *Binding, err error) (denial, bool) {
	started := e.clock()
	d := misconfiguration(p, b, err)
	switch {
	case e.ignored(p, b, d.message, started):
		return d, false
	case b != nil && !b.enforces(e.attributes), b == nil && p.shadowed(e.attributes):
		e.observe(p, b, outcomeShadowDeny, d.message, started)
		return d, false
	}
	e.observe(p, b, outcomeError, d.message, started)
	return d, true
}

// shadowed reports whether no binding of a policy is enforced for a request.
func (p *Policy) shadowed(a *admission.Attributes) bool {
	return !slices.ContainsFunc(p.Bindings, func(b *Binding) bool { return b.enforces(a) })
}

func misconfiguration(p *Policy, b *Binding, err error) denial {
	what := "policy"
	if b != nil {
		what = "binding"
	}
	return denial{policy: p, binding: b, message: fmt.Sprintf("failed to configure %s: %v", what, err)}
}

// timeout is the answer when the time of a request was over before its policies had judged it.
func timeout(ctx context.Context) error {
	return apierrors.NewTimeoutError(fmt.Sprintf("the admission policies could not be evaluated in time: %v", context.Cause(ctx)), 1)
}
