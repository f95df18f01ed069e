package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"

	"weir.dev/weir/server/request"
)

// Escalation knows what a client may grant: what it has itself, and what the verbs escalate (on roles)
// and bind (on a role that a binding refers to) let it. Members of system:masters may grant everything.
type Escalation struct {
	Index *Index
	// Authorizer is asked for escalate and bind.
	Authorizer authorizer.UnconditionalAuthorizer
}

// unbounded reports whether the client may grant everything.
func unbounded(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// mayEscalate reports whether the client may give the role of the request rules that it has not.
func (e *Escalation) mayEscalate(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	info, ok := request.InfoFrom(ctx)
	if !ok || !info.IsResourceRequest || info.APIGroup != rbacv1.GroupName || (info.Resource != Roles && info.Resource != ClusterRoles) {
		return false
	}
	return e.allowed(ctx, authorizer.AttributesRecord{User: u, Verb: "escalate", APIGroup: info.APIGroup, APIVersion: "*",
		Resource: info.Resource, Name: info.Name, Namespace: info.Namespace, ResourceRequest: true})
}

// mayBind reports whether the client may bind anybody in namespace to a role.
func (e *Escalation) mayBind(ctx context.Context, ref rbacv1.RoleRef, namespace string) bool {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	a := authorizer.AttributesRecord{User: u, Verb: "bind", APIGroup: ref.APIGroup, APIVersion: "*", Name: ref.Name,
		Namespace: namespace, ResourceRequest: true}
	switch ref.Kind {
	case "ClusterRole":
		a.Resource = ClusterRoles
	case "Role":
		a.Resource = Roles
	default:
		return false
	}
	return e.allowed(ctx, a)
}

func (e *Escalation) allowed(ctx context.Context, a authorizer.Attributes) bool {
	decision, _, err := e.Authorizer.Authorize(ctx, a)
	return err == nil && decision == authorizer.DecisionAllow
}

// covers returns nil when the client has all rules, in the namespace of the request; else an error that says
// what it lacks, in upstream's words.
func (e *Escalation) covers(ctx context.Context, rules []rbacv1.PolicyRule) error {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return errors.New("no user on context")
	}
	namespace, _ := request.NamespaceFrom(ctx)
	owned, unresolved := e.Index.RulesFor(u, namespace)
	ok, missing := validation.Covers(owned, rules)
	if ok {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(describeRules(missing), "\n"))
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{unresolved})
	}
	return errors.New(text)
}

// describeRules words rules one a line, sorted; those that differ in the verb alone are put together.
func describeRules(rules []rbacv1.PolicyRule) []string {
	var order []string
	merged := map[string]rbacv1.PolicyRule{}
	for _, r := range rules {
		verbs := r.Verbs
		r.Verbs = nil
		id := identity(&r)
		if len(r.ResourceNames) > 1 || len(r.NonResourceURLs) > 0 || len(r.APIGroups) != 1 || len(r.Resources) != 1 {
			r.Verbs = verbs
			id = identity(&r) // put together with its equals alone
			verbs = nil
		}
		have, ok := merged[id]
		if !ok {
			have = r
			order = append(order, id)
		}
		for _, v := range verbs {
			if !slices.Contains(have.Verbs, v) {
				have.Verbs = append(have.Verbs, v)
			}
		}
		merged[id] = have
	}
	out := make([]string, 0, len(order))
	for _, id := range order {
		out = append(out, describeRule(merged[id]))
	}
	slices.Sort(out)
	return out
}

func describeRule(r rbacv1.PolicyRule) string {
	var parts []string
	for _, p := range []struct {
		name string
		list []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(p.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", p.name, p.list))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
