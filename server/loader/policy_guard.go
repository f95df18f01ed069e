package loader

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

// Upstream's bounds (pkg/apis/admissionregistration/validation).
const (
	maxMatchConditions  = 64
	maxAuditAnnotations = 20
	maxMutations        = 64
)

// PolicyGuard returns the layer that validates one of the resources of policies, nil for another resource: what does not
// compile is refused when it is written, with the place and a caret.
func PolicyGuard(engines policies.Engines, rego RegoCompiler, gr schema.GroupResource) rest.Layer {
	var validate func(obj *document.Document) (field.ErrorList, error)
	switch gr {
	case validatingPolicies:
		validate = func(obj *document.Document) (field.ErrorList, error) {
			p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			if err := json.Unmarshal(obj.Bytes(), p); err != nil {
				return nil, unreadable("ValidatingAdmissionPolicy", err)
			}
			return validateValidatingPolicy(engines, p), nil
		}
	case mutatingPolicies:
		validate = func(obj *document.Document) (field.ErrorList, error) {
			p := &admissionregistrationv1.MutatingAdmissionPolicy{}
			if err := json.Unmarshal(obj.Bytes(), p); err != nil {
				return nil, unreadable("MutatingAdmissionPolicy", err)
			}
			return validateMutatingPolicy(engines, p), nil
		}
	case validatingBindings:
		validate = func(obj *document.Document) (field.ErrorList, error) {
			b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			if err := json.Unmarshal(obj.Bytes(), b); err != nil {
				return nil, unreadable("ValidatingAdmissionPolicyBinding", err)
			}
			return validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, &b.Spec.ValidationActions), nil
		}
	case mutatingBindings:
		validate = func(obj *document.Document) (field.ErrorList, error) {
			b := &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
			if err := json.Unmarshal(obj.Bytes(), b); err != nil {
				return nil, unreadable("MutatingAdmissionPolicyBinding", err)
			}
			return validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, nil), nil
		}
	case weirPolicies:
		validate = func(obj *document.Document) (field.ErrorList, error) {
			p, err := decodePolicy(obj)
			if err != nil {
				return nil, err
			}
			return validateWeirPolicy(engines, rego, p), nil
		}
	case weirBindings:
		validate = func(obj *document.Document) (field.ErrorList, error) {
			b := &v1alpha1.PolicyBinding{}
			if err := json.Unmarshal(obj.Bytes(), b); err != nil {
				return nil, unreadable("PolicyBinding", err)
			}
			return validateWeirBinding(b), nil
		}
	default:
		return nil
	}
	return guard{name: "policy-guard", validate: validate}
}

// unreadable is the answer to an object that is not of its kind.
func unreadable(kind string, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("not a %s: %v", kind, err))
}

func validateValidatingPolicy(engines policies.Engines, p *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	path, spec := field.NewPath("spec"), &p.Spec
	errs := validatePolicyParts(path, spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, spec.MatchConditions, variableNames(spec.Variables))
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const detail = "validations or auditAnnotations must contain at least one item"
		errs = append(errs, field.Required(path.Child("validations"), detail), field.Required(path.Child("auditAnnotations"), detail))
	}
	for i := range spec.Validations {
		errs = append(errs, validateValidation(&spec.Validations[i], path.Child("validations").Index(i))...)
	}
	errs = append(errs, validateAuditAnnotations(p.Name, spec.AuditAnnotations, path.Child("auditAnnotations"))...)
	compiled, err := policy.FromValidating(engines, p)
	for _, e := range compileErrors(compiled, err) {
		// A name that is missing has been said to be.
		if !slices.ContainsFunc(errs, func(have *field.Error) bool { return have.Field == e.Field }) {
			errs = append(errs, e)
		}
	}
	return errs
}

func validateMutatingPolicy(engines policies.Engines, p *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	path, spec := field.NewPath("spec"), &p.Spec
	errs := validatePolicyParts(path, spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, spec.MatchConditions, variableNames(spec.Variables))
	if spec.MatchConstraints != nil {
		for i, rule := range spec.MatchConstraints.ResourceRules {
			for j, op := range rule.Operations {
				if op == admissionregistrationv1.Delete || op == admissionregistrationv1.Connect {
					errs = append(errs, field.NotSupported(path.Child("matchConstraints", "resourceRules").Index(i).Child("operations").Index(j), op,
						[]admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll, admissionregistrationv1.Create, admissionregistrationv1.Update}))
				}
			}
		}
	}
	switch {
	case len(spec.Mutations) == 0:
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	case len(spec.Mutations) > maxMutations:
		errs = append(errs, field.TooMany(path.Child("mutations"), len(spec.Mutations), maxMutations))
	}
	for i := range spec.Mutations {
		errs = append(errs, validateMutation(&spec.Mutations[i], path.Child("mutations").Index(i))...)
	}
	switch spec.ReinvocationPolicy {
	case admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy:
	case "":
		errs = append(errs, field.Required(path.Child("reinvocationPolicy"), ""))
	default:
		errs = append(errs, field.NotSupported(path.Child("reinvocationPolicy"), spec.ReinvocationPolicy,
			[]admissionregistrationv1.ReinvocationPolicyType{admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy}))
	}
	compiled, err := policy.FromMutating(engines, p)
	for _, e := range compileErrors(compiled, err) {
		// Which of the two is missing has been said.
		if !slices.ContainsFunc(errs, func(have *field.Error) bool { return strings.HasPrefix(have.Field, e.Field) }) {
			errs = append(errs, e)
		}
	}
	return errs
}

// compileErrors are those of the expressions. What the match constraints lack has been said elsewhere.
func compileErrors(p *policy.Policy, err error) field.ErrorList {
	issues, ok := err.(policies.Issues) //nolint:errorlint // the contract of policy.FromValidating
	if !ok {
		if m, ok := p.Judge.(policy.Mentioner); ok && p.ParamKind == nil && m.Mentions("params") {
			return field.ErrorList{field.Required(field.NewPath("spec", "paramKind"), "expressions use params, which have no kind")}
		}
		return nil
	}
	var errs field.ErrorList
	for _, issue := range issues {
		errs = append(errs, fieldError(issue))
	}
	return errs
}

func variableNames(from []admissionregistrationv1.Variable) []string {
	names := make([]string, 0, len(from))
	for _, v := range from {
		names = append(names, v.Name)
	}
	return names
}

// validatePolicyParts validates what both sorts of policy have.
func validatePolicyParts(path *field.Path, failure *admissionregistrationv1.FailurePolicyType, kind *admissionregistrationv1.ParamKind,
	match *admissionregistrationv1.MatchResources, conditions []admissionregistrationv1.MatchCondition, variables []string) field.ErrorList {
	var errs field.ErrorList
	if failure != nil && *failure != admissionregistrationv1.Fail && *failure != admissionregistrationv1.Ignore {
		errs = append(errs, field.NotSupported(path.Child("failurePolicy"), *failure,
			[]admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail, admissionregistrationv1.Ignore}))
	}
	if kind != nil {
		errs = append(errs, validateParamKind(kind, path.Child("paramKind"))...)
	}
	if match == nil {
		errs = append(errs, field.Required(path.Child("matchConstraints"), ""))
	} else {
		if len(match.ResourceRules) == 0 {
			errs = append(errs, field.Required(path.Child("matchConstraints", "resourceRules"), ""))
		}
		errs = append(errs, validateMatchResources(match, path.Child("matchConstraints"))...)
	}
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(path.Child("matchConditions"), len(conditions), maxMatchConditions))
	}
	names := sets.New[string]()
	for i, c := range conditions {
		at := path.Child("matchConditions").Index(i).Child("name")
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at, ""))
		case names.Has(c.Name):
			errs = append(errs, field.Duplicate(at, c.Name))
		default:
			for _, msg := range utilvalidation.IsQualifiedName(c.Name) {
				errs = append(errs, field.Invalid(at, c.Name, msg))
			}
		}
		names.Insert(c.Name)
	}
	for i, name := range variables {
		if name == "" {
			errs = append(errs, field.Required(path.Child("variables").Index(i).Child("name"), "name is not specified"))
		}
	}
	return errs
}

func validateParamKind(kind *admissionregistrationv1.ParamKind, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if kind.APIVersion == "" {
		errs = append(errs, field.Required(path.Child("apiVersion"), ""))
	} else if gv, err := schema.ParseGroupVersion(kind.APIVersion); err != nil || gv.Version == "" {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), kind.APIVersion, "must be a group and a version, such as v1 or rules.example.com/v1"))
	}
	if kind.Kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	} else if msgs := utilvalidation.IsDNS1035Label(strings.ToLower(kind.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), kind.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}

func validateValidation(v *admissionregistrationv1.Validation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	message := strings.TrimSpace(v.Message)
	switch {
	case v.Message != "" && message == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "message must be non-empty if specified"))
	case strings.ContainsAny(message, "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "message must not contain line breaks"))
	}
	if r := v.Reason; r != nil {
		supported := []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge}
		if !slices.Contains(supported, *r) {
			errs = append(errs, field.NotSupported(path.Child("reason"), *r, supported))
		}
	}
	return errs
}

func validateAuditAnnotations(name string, list []admissionregistrationv1.AuditAnnotation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxAuditAnnotations {
		errs = append(errs, field.TooMany(path, len(list), maxAuditAnnotations))
	}
	keys := sets.New[string]()
	for i, a := range list {
		at := path.Index(i).Child("key")
		switch {
		case a.Key == "":
			errs = append(errs, field.Required(at, ""))
		case keys.Has(a.Key):
			errs = append(errs, field.Duplicate(at, a.Key))
		default:
			for _, msg := range utilvalidation.IsQualifiedName(name + "/" + a.Key) {
				errs = append(errs, field.Invalid(at, a.Key, msg))
			}
		}
		keys.Insert(a.Key)
	}
	return errs
}

func validateMutation(m *admissionregistrationv1.Mutation, path *field.Path) field.ErrorList {
	switch m.PatchType {
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		var errs field.ErrorList
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(path.Child("applyConfiguration"), "must be specified when patchType is ApplyConfiguration"))
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(path.Child("jsonPatch"), field.OmitValueType{}, "must not be specified when patchType is ApplyConfiguration"))
		}
		return errs
	case admissionregistrationv1.PatchTypeJSONPatch:
		var errs field.ErrorList
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(path.Child("jsonPatch"), "must be specified when patchType is JSONPatch"))
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(path.Child("applyConfiguration"), field.OmitValueType{}, "must not be specified when patchType is JSONPatch"))
		}
		return errs
	case "":
		return field.ErrorList{field.Required(path.Child("patchType"), "")}
	default:
		return field.ErrorList{field.NotSupported(path.Child("patchType"), m.PatchType,
			[]admissionregistrationv1.PatchType{admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch})}
	}
}

// validateBinding validates a binding; actions is nil where it has none.
func validateBinding(policyName string, ref *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources, actions *[]admissionregistrationv1.ValidationAction) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if policyName == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	} else {
		for _, msg := range utilvalidation.IsDNS1123Subdomain(policyName) {
			errs = append(errs, field.Invalid(path.Child("policyName"), policyName, msg))
		}
	}
	if ref != nil {
		errs = append(errs, validateParamRef(ref, path.Child("paramRef"))...)
	}
	if match != nil {
		errs = append(errs, validateMatchResources(match, path.Child("matchResources"))...)
	}
	if actions != nil {
		errs = append(errs, validateActions(*actions, path.Child("validationActions"))...)
	}
	return errs
}

func validateActions(actions []admissionregistrationv1.ValidationAction, path *field.Path) field.ErrorList {
	if len(actions) == 0 {
		return field.ErrorList{field.Required(path, "at least one validation action is required")}
	}
	var errs field.ErrorList
	supported := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn}
	for i, a := range actions {
		switch {
		case !slices.Contains(supported, a):
			errs = append(errs, field.NotSupported(path.Index(i), a, supported))
		case slices.Contains(actions[:i], a):
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(actions, admissionregistrationv1.Deny) && slices.Contains(actions, admissionregistrationv1.Warn) {
		errs = append(errs, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}

func validateParamRef(ref *admissionregistrationv1.ParamRef, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case ref.Name != "" && ref.Selector != nil:
		errs = append(errs, field.Forbidden(path.Child("name"), "name and selector are mutually exclusive"),
			field.Forbidden(path.Child("selector"), "name and selector are mutually exclusive"))
	case ref.Name == "" && ref.Selector == nil:
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	for _, msg := range content.IsPathSegmentName(ref.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), ref.Name, msg))
	}
	if ref.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(ref.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	switch a := ref.ParameterNotFoundAction; {
	case a == nil:
		errs = append(errs, field.Required(path.Child("parameterNotFoundAction"), ""))
	case *a != admissionregistrationv1.DenyAction && *a != admissionregistrationv1.AllowAction:
		errs = append(errs, field.NotSupported(path.Child("parameterNotFoundAction"), *a,
			[]admissionregistrationv1.ParameterNotFoundActionType{admissionregistrationv1.AllowAction, admissionregistrationv1.DenyAction}))
	}
	return errs
}
