package auth

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorizer lets everybody see /healthz, /livez and /readyz, members of system:masters do everything, and asks Rules
// about the rest: about the single checks too, whose answers say why they fail.
type Authorizer struct {
	// Rules decides what is not decided before it.
	Rules interface {
		authorizer.Authorizer
		authorizer.RuleResolver
	}
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// Authorize implements authorizer.Authorizer.
func (z *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if u := a.GetUser(); u != nil && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	if !a.IsResourceRequest() && isHealthPath(a.GetPath()) {
		return authorizer.DecisionAllow, "", nil
	}
	return z.Rules.Authorize(ctx, a)
}

func isHealthPath(path string) bool {
	return path == "/healthz" || path == "/livez" || path == "/readyz"
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: nothing here has conditions.
func (z *Authorizer) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(z.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer.
func (*Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor implements authorizer.RuleResolver.
func (z *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return z.Rules.RulesFor(ctx, u, namespace)
}
