package policy

import (
	"context"
	"errors"
	"fmt"
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
	found, e := x.begin(ctx, a)
	if len(found.validating) == 0 {
		return nil
	}
	v := validation{evaluation: e, metrics: x.metrics}
	for _, p := range found.validating {
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
	metrics *Metrics
	denials []denial
	audit   auditor
}

// policy judges by all bindings of a policy. Its error ends the request; what the policy refuses is in denials.
func (v *validation) policy(p *Policy) error {
	as, ok, err := p.Match.matches(v.evaluation)
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
	judge, ok := p.Judge.(policies.Judge)
	if !ok {
		v.misconfigured(p, nil, errors.New("it has nothing to judge by"))
		return nil
	}
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
	started := time.Now()
	review, err := v.review(judge, seen, param)
	if err != nil {
		return err
	}
	decision, err := judge.Judge(v.ctx, review)
	if err != nil {
		if v.ctx.Err() != nil {
			return timeout(v.ctx)
		}
		v.fail(p, b, -1, policies.Denial{Message: err.Error(), Err: err}, started)
		return nil
	}
	for _, w := range decision.Warnings {
		warning.AddWarning(v.ctx, "", w)
	}
	if len(decision.Denials) == 0 {
		v.metrics.observe(p, b, outcomeAllow, started)
	}
	for i := range decision.Denials {
		v.fail(p, b, i, decision.Denials[i], started)
	}
	for _, annotation := range decision.AuditAnnotations {
		switch {
		case annotation.Err == nil:
			v.audit.annotate(p.Name, annotation.Key, annotation.Value)
		case !p.FailOpen:
			v.denials = append(v.denials, denial{policy: p, binding: b, message: annotation.Err.Error()})
			v.metrics.observe(p, b, outcomeError, started)
		}
	}
	return nil
}

// fail does what the binding says of a failed validation.
func (v *validation) fail(p *Policy, b *Binding, index int, d policies.Denial, started time.Time) {
	outcome, reason := outcomeDeny, metav1.StatusReason(d.Reason)
	if d.Err != nil {
		if v.ignored(p, b, started) {
			return
		}
		outcome, reason = outcomeError, ""
	}
	v.metrics.observe(p, b, outcome, started)
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
func (v *validation) ignored(p *Policy, b *Binding, started time.Time) bool {
	if p.FailOpen {
		v.metrics.observe(p, b, outcomeIgnored, started)
	}
	return p.FailOpen
}

// misconfigured denies, as the failure policy says, by a policy or binding that cannot be used.
func (v *validation) misconfigured(p *Policy, b *Binding, err error) {
	if started := time.Now(); !v.ignored(p, b, started) {
		v.metrics.observe(p, b, outcomeError, started)
		v.denials = append(v.denials, misconfiguration(p, b, err))
	}
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
