package rbac

import (
	"context"
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorizer decides by an Index. It never denies: what no rule allows is left to others.
type Authorizer struct{ index *Index }

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// NewAuthorizer returns an Authorizer that decides by index. Until the index is synced it waits.
func NewAuthorizer(index *Index) *Authorizer { return &Authorizer{index} }

// Authorize implements authorizer.Authorizer. The reason of a refusal names the bindings' roles that
// do not exist.
func (z *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if err := z.index.WaitSynced(ctx); err != nil {
		return authorizer.DecisionNoOpinion, "RBAC: " + err.Error(), err
	}
	state := z.index.state.Load()
	var errs []error
	for g := range state.grantsOf(a.GetUser(), a.GetNamespace()) {
		r, err := state.role(g.roleKind, g.roleName, g.namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range r.rules {
			if Allows(&r.rules[i], a) {
				return authorizer.DecisionAllow, g.reason, nil
			}
		}
	}
	if len(errs) > 0 {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs)), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: rules have no conditions.
func (z *Authorizer) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(z.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer.
func (*Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor implements authorizer.RuleResolver.
func (z *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if err := z.index.WaitSynced(ctx); err != nil {
		return nil, nil, true, err
	}
	rules, err := z.index.RulesFor(u, namespace)
	var resources []authorizer.ResourceRuleInfo
	var others []authorizer.NonResourceRuleInfo
	for _, r := range rules {
		if len(r.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
		}
		if len(r.NonResourceURLs) > 0 {
			others = append(others, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	return resources, others, false, err
}
