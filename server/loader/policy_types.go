package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

// TypeChecker compares expressions with the schemas of the objects that they are about.
type TypeChecker interface {
	// CheckTypes says of each expression of a source what is wrong with it where objects and params have these schemas;
	// "": nothing. A nil schema is not known, and anything may be in such an object.
	CheckTypes(src *policies.Source, object, params rest.OpenAPISource) ([]string, error)
}

// enqueueTypeCheck has the expressions of a ValidatingAdmissionPolicy compared with the kinds that it concerns, and its
// status written.
func (l *Loader) enqueueTypeCheck(name string) {
	l.status.enqueue("ValidatingAdmissionPolicy "+name, func(ctx context.Context) error {
		return l.updateStatus(ctx, validatingPolicies, name, func(old *document.Document) (any, error) {
			object := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := json.Unmarshal(old.Bytes(), object); err != nil {
				return nil, fmt.Errorf("not a ValidatingAdmissionPolicy: %w", err)
			}
			l.mu.Lock()
			s := l.policies.policies[policyKey{"ValidatingAdmissionPolicy", name}]
			if s == nil || s.uid != object.UID || s.generation != object.Generation {
				l.mu.Unlock()
				return nil, nil // there is another one by now, which is told of
			}
			refused, missing := s.err, l.paramKindMissingLocked(object.Spec.ParamKind)
			l.mu.Unlock()
			status := &object.Status
			status.ObservedGeneration = object.Generation
			status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: l.typeWarnings(ctx, object)}
			l.validatingCondition(status, refused, missing)
			return status, nil
		})
	})
}

// validatingCondition says whether a policy judges. Upstream has no such condition.
func (l *Loader) validatingCondition(status *admissionregistrationv1.ValidatingAdmissionPolicyStatus, refused error, missing string) {
	ready := metav1.Condition{Type: v1alpha1.PolicyReady, Status: metav1.ConditionTrue, Reason: reasonInForce, Message: "every request that it concerns meets this generation"}
	if refused != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonRefused, bounded(refused.Error())
	}
	noParamKind(&ready, missing)
	if l.cfg.SuspendPolicies {
		suspend(&ready)
	}
	setCondition(&status.Conditions, ready, status.ObservedGeneration, l.cfg.Clock.Now())
}

// typeWarnings are spelled as upstream's (k8s.io/apiserver/pkg/admission/plugin/policy/validating, typechecking.go).
func (l *Loader) typeWarnings(ctx context.Context, p *admissionregistrationv1.ValidatingAdmissionPolicy) []admissionregistrationv1.ExpressionWarning {
	if l.cfg.Types == nil {
		return nil
	}
	snapshot, release := l.holder.Acquire()
	defer release()
	src := policy.CheckedSource(&p.Spec)
	var params rest.OpenAPISource
	if kind := p.Spec.ParamKind; kind != nil {
		params = policy.SchemaOf(snapshot, schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	}
	texts := make([][]string, len(src.Expressions))
	for _, kind := range policy.CheckedKinds(snapshot, &p.Spec) {
		object := policy.SchemaOf(snapshot, kind)
		if object == nil {
			continue
		}
		found, err := l.cfg.Types.CheckTypes(src, object, params)
		if err != nil {
			l.cfg.Logger.WarnContext(ctx, "types of a policy cannot be checked", "policy", p.Name, "kind", kind.String(), "error", err)
			continue
		}
		for i, text := range found {
			if text != "" {
				texts[i] = append(texts[i], fmt.Sprintf("%v: %s\n", kind, text))
			}
		}
	}
	var out []admissionregistrationv1.ExpressionWarning
	for i, list := range texts {
		if len(list) > 0 {
			out = append(out, admissionregistrationv1.ExpressionWarning{FieldRef: src.Expressions[i].Path, Warning: strings.Join(list, "\n")})
		}
	}
	return out
}

// checkTypesOfLocked has the policies checked again that name a group, in their rules or as that of their params: its
// kinds are others than they were.
func (l *Loader) checkTypesOfLocked(group string) {
	for key, s := range l.policies.policies {
		if key.kind == "ValidatingAdmissionPolicy" && slices.Contains(s.groups, group) {
			l.enqueueTypeCheck(key.name)
		}
		if s.weir != nil && s.weir.Spec.ParamKind != nil && schema.FromAPIVersionAndKind(s.weir.Spec.ParamKind.APIVersion, "").Group == group {
			l.enqueuePolicyStatus(key.name)
			l.enqueueBindingsOfLocked(key.name)
		}
	}
}

// groupsOf are those whose kinds the types of a policy depend on.
func groupsOf(p *admissionregistrationv1.ValidatingAdmissionPolicy) []string {
	var groups []string
	if m := p.Spec.MatchConstraints; m != nil {
		for i := range m.ResourceRules {
			groups = append(groups, m.ResourceRules[i].APIGroups...)
		}
	}
	if kind := p.Spec.ParamKind; kind != nil {
		groups = append(groups, schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind).Group)
	}
	return groups
}
