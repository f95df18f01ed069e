package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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

// checked is what of a policy of admissionregistration.k8s.io is compared with the kinds that it concerns.
type checked struct {
	name        string
	source      *policies.Source
	constraints *admissionregistrationv1.MatchResources
	paramKind   *admissionregistrationv1.ParamKind
}

// checkedOf reads it, with what else the status depends on.
func checkedOf(gr schema.GroupResource, obj *document.Document) (*checked, *admissionStatus, error) {
	if gr == mutatingPolicies {
		from := &admissionregistrationv1.MutatingAdmissionPolicy{}
		status := &struct {
			Status admissionregistrationv1.ValidatingAdmissionPolicyStatus `json:"status"`
		}{}
		if err := errors.Join(json.Unmarshal(obj.Bytes(), from), json.Unmarshal(obj.Bytes(), status)); err != nil {
			return nil, nil, fmt.Errorf("not a MutatingAdmissionPolicy: %w", err)
		}
		return &checked{name: from.Name, source: policy.CheckedMutations(&from.Spec), constraints: from.Spec.MatchConstraints, paramKind: from.Spec.ParamKind},
			&admissionStatus{from.UID, from.Generation, &status.Status}, nil
	}
	from := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	if err := json.Unmarshal(obj.Bytes(), from); err != nil {
		return nil, nil, fmt.Errorf("not a ValidatingAdmissionPolicy: %w", err)
	}
	return &checked{name: from.Name, source: policy.CheckedSource(&from.Spec), constraints: from.Spec.MatchConstraints, paramKind: from.Spec.ParamKind},
		&admissionStatus{from.UID, from.Generation, &from.Status}, nil
}

// admissionStatus is the status of a policy of admissionregistration.k8s.io. Upstream's MutatingAdmissionPolicy has none;
// here it has that of the other.
type admissionStatus struct {
	uid        types.UID
	generation int64
	*admissionregistrationv1.ValidatingAdmissionPolicyStatus
}

// enqueueTypeCheck has the expressions of a policy compared with the kinds that it concerns, and its status written.
func (l *Loader) enqueueTypeCheck(gr schema.GroupResource, name string) {
	key := policyKey{policyKind(gr), name}
	l.status.enqueue(key.kind+" "+name, func(ctx context.Context) error {
		return l.updateStatus(ctx, gr, name, func(old *document.Document) (any, error) {
			what, status, err := checkedOf(gr, old)
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			s := l.policies.policies[key]
			if s == nil || s.uid != status.uid || s.generation != status.generation {
				l.mu.Unlock()
				return nil, nil // there is another one by now, which is told of
			}
			refused, missing := s.err, l.paramKindMissingLocked(what.paramKind)
			l.mu.Unlock()
			status.ObservedGeneration = status.generation
			status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: l.typeWarnings(ctx, what)}
			l.admissionCondition(status, refused, missing)
			return status.ValidatingAdmissionPolicyStatus, nil
		})
	})
}

// admissionCondition says whether a policy judges. Upstream has no such condition.
func (l *Loader) admissionCondition(status *admissionStatus, refused error, missing string) {
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
func (l *Loader) typeWarnings(ctx context.Context, p *checked) []admissionregistrationv1.ExpressionWarning {
	if l.cfg.Types == nil {
		return nil
	}
	snapshot, release := l.holder.Acquire()
	defer release()
	src := p.source
	var params rest.OpenAPISource
	if kind := p.paramKind; kind != nil {
		params = policy.SchemaOf(snapshot, schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	}
	texts := make([][]string, len(src.Expressions))
	for _, kind := range policy.CheckedKinds(snapshot, p.constraints) {
		object := policy.SchemaOf(snapshot, kind)
		if object == nil {
			continue
		}
		found, err := l.cfg.Types.CheckTypes(src, object, params)
		if err != nil {
			l.cfg.Logger.WarnContext(ctx, "types of a policy cannot be checked", "policy", p.name, "kind", kind.String(), "error", err)
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
		if slices.Contains(s.groups, group) {
			if gr := policyResourceOfKind(key.kind); gr != weirPolicies {
				l.enqueueTypeCheck(gr, key.name)
			}
		}
		if s.weir != nil && s.weir.Spec.ParamKind != nil && schema.FromAPIVersionAndKind(s.weir.Spec.ParamKind.APIVersion, "").Group == group {
			l.enqueuePolicyStatus(key.name)
			l.enqueueBindingsOfLocked(key.name)
		}
	}
}

// groupsOf are those whose kinds the types of a policy depend on.
func groupsOf(m *admissionregistrationv1.MatchResources, kind *admissionregistrationv1.ParamKind) []string {
	var groups []string
	if m != nil {
		for i := range m.ResourceRules {
			groups = append(groups, m.ResourceRules[i].APIGroups...)
		}
	}
	if kind != nil {
		groups = append(groups, schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind).Group)
	}
	return groups
}
