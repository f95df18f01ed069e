package loader

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension/policy"
)

// validateWeirPolicy validates a Policy. Whether its module is ready is said in its status.
func validateWeirPolicy(engines policies.Engines, rego RegoCompiler, p *v1alpha1.Policy) field.ErrorList {
	path, spec := field.NewPath("spec"), &p.Spec
	errs := validatePolicyParts(path, spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, spec.MatchConditions, nil)
	conditions, err := policies.CompileConditions(engines.Conditions, "spec.matchConditions", policy.ConditionTexts(spec.MatchConditions))
	errs = append(errs, issueErrors(err)...)
	if spec.ParamKind == nil && conditions.Mentions("params") {
		errs = append(errs, field.Required(path.Child("paramKind"), "match conditions use params, which have no kind"))
	}
	switch spec.ReinvocationPolicy {
	case "", admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy:
	default:
		errs = append(errs, field.NotSupported(path.Child("reinvocationPolicy"), spec.ReinvocationPolicy,
			[]admissionregistrationv1.ReinvocationPolicyType{admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy}))
	}
	switch {
	case (spec.Wasm == nil) == (spec.Rego == nil):
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "exactly one of wasm and rego is required"))
	case spec.Wasm != nil && spec.Wasm.Module == "":
		errs = append(errs, field.Required(path.Child("wasm", "module"), "the name of a Module"))
	case spec.Rego != nil:
		errs = append(errs, validateRego(rego, spec.Rego, path.Child("rego"))...)
	}
	return errs
}

func validateRego(rego RegoCompiler, rules *v1alpha1.RegoPolicy, path *field.Path) field.ErrorList {
	switch {
	case (rules.Source == "") == (len(rules.Bundle) == 0):
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "exactly one of source and bundle is required")}
	case rules.Source != "" && rules.Digest != "":
		return field.ErrorList{field.Forbidden(path.Child("digest"), "is of a bundle")}
	case rego == nil:
		return field.ErrorList{field.Forbidden(path, "this server has no engine for Rego")}
	}
	_, _, err := rego.CompileRego(rules)
	return issueErrors(err)
}

// issueErrors are those of texts that do not compile.
func issueErrors(err error) field.ErrorList {
	if err == nil {
		return nil
	}
	issues, ok := err.(policies.Issues) //nolint:errorlint // the contract of the engines
	if !ok {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error())}
	}
	var errs field.ErrorList
	for _, issue := range issues {
		errs = append(errs, fieldError(issue))
	}
	return errs
}

func validateWeirBinding(b *v1alpha1.PolicyBinding) field.ErrorList {
	path, spec := field.NewPath("spec"), &b.Spec
	errs := validateBinding(spec.PolicyName, spec.ParamRef, spec.MatchResources, &spec.ValidationActions)
	if modes := []string{v1alpha1.ModeEnforce, v1alpha1.ModeShadow}; !slices.Contains(modes, spec.Mode) {
		errs = append(errs, field.NotSupported(path.Child("mode"), spec.Mode, modes))
	}
	if n := spec.Percent; n != nil && (*n < 0 || *n > 100) {
		errs = append(errs, field.Invalid(path.Child("percent"), *n, "must be from 0 to 100"))
	}
	return errs
}
