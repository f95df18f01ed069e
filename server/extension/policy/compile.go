package policy

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/policies"
)

// FromValidating compiles a ValidatingAdmissionPolicy. The error is policies.Issues when its expressions are at fault;
// the Policy is returned all the same, with the error in it.
func FromValidating(engines policies.Engines, from *admissionregistrationv1.ValidatingAdmissionPolicy) (*Policy, error) {
	spec := &from.Spec
	p := newPolicy(validatingKind, &from.ObjectMeta, spec.FailurePolicy, spec.ParamKind)
	source := &policies.Expressions{Path: "spec", MatchConditions: ConditionTexts(spec.MatchConditions), Variables: variableTexts(spec.Variables)}
	for i := range spec.Validations {
		v := &spec.Validations[i]
		text := policies.ValidationText{Expression: v.Expression, Message: v.Message, MessageExpression: v.MessageExpression}
		if v.Reason != nil {
			text.Reason = string(*v.Reason)
		}
		source.Validations = append(source.Validations, text)
	}
	for _, a := range spec.AuditAnnotations {
		source.AuditAnnotations = append(source.AuditAnnotations, policies.NamedText{Name: a.Key, Expression: a.ValueExpression})
	}
	judge, err := policies.CompileExpressions(engines, source)
	if err == nil {
		p.Judge = judge
	}
	return p.finish(spec.MatchConstraints, err)
}

// FromMutating compiles a MutatingAdmissionPolicy, as FromValidating does.
func FromMutating(engines policies.Engines, from *admissionregistrationv1.MutatingAdmissionPolicy) (*Policy, error) {
	spec := &from.Spec
	p := newPolicy(mutatingKind, &from.ObjectMeta, spec.FailurePolicy, spec.ParamKind)
	p.Reinvoke = spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
	mutator, err := newMutator(engines, spec)
	if err == nil {
		p.Judge = mutator
	}
	return p.finish(spec.MatchConstraints, err)
}

func newPolicy(kind string, meta *metav1.ObjectMeta, failure *admissionregistrationv1.FailurePolicyType, params *admissionregistrationv1.ParamKind) *Policy {
	p := &Policy{Kind: kind, Name: meta.Name, FailOpen: failure != nil && *failure == admissionregistrationv1.Ignore}
	if params != nil {
		gvk := schema.FromAPIVersionAndKind(params.APIVersion, params.Kind)
		p.ParamKind = &gvk
	}
	return p
}

// finish adds what the policy matches. err is why it has nothing to judge by.
func (p *Policy) finish(constraints *admissionregistrationv1.MatchResources, err error) (*Policy, error) {
	var matchErr error
	switch {
	case constraints == nil:
		matchErr = fmt.Errorf("spec.matchConstraints is missing")
		p.Match = rulesOnly(&admissionregistrationv1.MatchResources{})
	default:
		if p.Match, matchErr = NewMatch(constraints); matchErr != nil {
			matchErr = fmt.Errorf("spec.matchConstraints: %w", matchErr)
			p.Match = rulesOnly(constraints)
		}
	}
	if p.Err = err; err == nil {
		p.Err = matchErr
	}
	return p, p.Err
}

// Spec is what all kinds of policy have in common.
type Spec struct {
	MatchConstraints *admissionregistrationv1.MatchResources
	FailurePolicy    *admissionregistrationv1.FailurePolicyType
	ParamKind        *admissionregistrationv1.ParamKind
}

// FromSpec returns a Policy without a judge. It is returned with an error too, which is in it.
func FromSpec(kind, name string, from Spec) (*Policy, error) {
	return newPolicy(kind, &metav1.ObjectMeta{Name: name}, from.FailurePolicy, from.ParamKind).finish(from.MatchConstraints, nil)
}

// ConditionTexts gives match conditions in the form of package policies.
func ConditionTexts(from []admissionregistrationv1.MatchCondition) []policies.NamedText {
	list := make([]policies.NamedText, 0, len(from))
	for _, c := range from {
		list = append(list, policies.NamedText{Name: c.Name, Expression: c.Expression})
	}
	return list
}

func variableTexts(from []admissionregistrationv1.Variable) []policies.NamedText {
	list := make([]policies.NamedText, 0, len(from))
	for _, v := range from {
		list = append(list, policies.NamedText{Name: v.Name, Expression: v.Expression})
	}
	return list
}

// FromValidatingBinding returns the Binding of a ValidatingAdmissionPolicyBinding.
func FromValidatingBinding(from *admissionregistrationv1.ValidatingAdmissionPolicyBinding) *Binding {
	return FromBinding(from.Name, BindingSpec{Match: from.Spec.MatchResources, Params: from.Spec.ParamRef, Actions: from.Spec.ValidationActions})
}

// BindingSpec is what all kinds of binding have in common.
type BindingSpec struct {
	Match   *admissionregistrationv1.MatchResources
	Params  *admissionregistrationv1.ParamRef
	Actions []admissionregistrationv1.ValidationAction
}

// FromBinding returns the Binding of a spec. What is wrong with it is in it.
func FromBinding(name string, from BindingSpec) *Binding {
	b := newBinding(name, from.Match, from.Params)
	b.Deny = slices.Contains(from.Actions, admissionregistrationv1.Deny)
	b.Warn = slices.Contains(from.Actions, admissionregistrationv1.Warn)
	b.Audit = slices.Contains(from.Actions, admissionregistrationv1.Audit)
	return b
}

// FromMutatingBinding returns the Binding of a MutatingAdmissionPolicyBinding.
func FromMutatingBinding(from *admissionregistrationv1.MutatingAdmissionPolicyBinding) *Binding {
	return newBinding(from.Name, from.Spec.MatchResources, from.Spec.ParamRef)
}

func newBinding(name string, match *admissionregistrationv1.MatchResources, ref *admissionregistrationv1.ParamRef) *Binding {
	b := &Binding{Name: name}
	if b.Match, b.Err = NewMatch(match); b.Err != nil {
		b.Err = fmt.Errorf("spec.matchResources: %w", b.Err)
		b.Match = rulesOnly(match)
	}
	if ref == nil {
		return b
	}
	b.Params = &ParamRef{Name: ref.Name, Namespace: ref.Namespace,
		DenyMissing: ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction}
	if ref.Selector != nil {
		var err error
		if b.Params.Selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil && b.Err == nil {
			b.Err = fmt.Errorf("spec.paramRef.selector: %w", err)
		}
	}
	return b
}
