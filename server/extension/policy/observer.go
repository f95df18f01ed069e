package policy

import (
	"context"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// Observer is told what the policies say of one request, while they say it. One goroutine uses it. Its functions may
// be nil.
type Observer struct {
	// Judged is called for each judgement.
	Judged func(Judgement)
	// Bound is called with the params that a binding has a policy judge by, before it does.
	Bound func(p *Policy, b *Binding, params []*document.Document)
	// Namespace is called with the namespace of the request, when it is read for a selector or an expression.
	Namespace func(namespace *document.Document)
}

// Judgement is what one policy says of one request by one binding and one param. A policy that denies for several
// reasons gives one for each.
type Judgement struct {
	Policy *Policy
	// Binding is nil where the policy itself cannot be used.
	Binding *Binding
	// Outcome is one of those of the metric weir_admission_policy_checks_total. A denial is deny, whatever follows from it.
	Outcome string
	// Message of a denial or error; of a shadow that mutates, the paths.
	Message string
	// Cost of all that was evaluated since the Judgement before.
	Cost policies.Cost
}

// Outcomes of a Judgement.
const (
	OutcomeAllow        = outcomeAllow
	OutcomeDeny         = outcomeDeny
	OutcomeError        = outcomeError
	OutcomeIgnored      = outcomeIgnored
	OutcomeMutate       = outcomeMutate
	OutcomeShadowDeny   = outcomeShadowDeny
	OutcomeShadowMutate = outcomeShadowMutate
)

type observerKey struct{}

// WithObserver returns a context in which the policies of a request tell o.
func WithObserver(ctx context.Context, o *Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// ObserverFrom returns the Observer of a context, or nil.
func ObserverFrom(ctx context.Context) *Observer {
	o, _ := ctx.Value(observerKey{}).(*Observer)
	return o
}

// judged tells of a judgement. Nobody is told by a nil one.
func (o *Observer) judged(j Judgement) {
	if o != nil && o.Judged != nil {
		o.Judged(j)
	}
}

// bound tells of params.
func (o *Observer) bound(p *Policy, b *Binding, params []*document.Document) {
	if o != nil && o.Bound != nil {
		o.Bound(p, b, params)
	}
}

// readNamespace tells of the namespace.
func (o *Observer) readNamespace(namespace *document.Document) {
	if o != nil && o.Namespace != nil {
		o.Namespace(namespace)
	}
}

// IsExempt reports whether no policy is asked about a resource: what repairs policies, and reviews.
func IsExempt(group, resource string) bool { return isExemptResource(group, resource) }
