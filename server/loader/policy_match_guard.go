package loader

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateMatchResources(match *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := match.MatchPolicy; p != nil && *p != admissionregistrationv1.Exact && *p != admissionregistrationv1.Equivalent {
		errs = append(errs, field.NotSupported(path.Child("matchPolicy"), *p,
			[]admissionregistrationv1.MatchPolicyType{admissionregistrationv1.Equivalent, admissionregistrationv1.Exact}))
	}
	for name, selector := range map[string]*metav1.LabelSelector{"namespaceSelector": match.NamespaceSelector, "objectSelector": match.ObjectSelector} {
		if selector != nil {
			errs = append(errs, metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path.Child(name))...)
		}
	}
	for i := range match.ResourceRules {
		errs = append(errs, validateRule(&match.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range match.ExcludeResourceRules {
		errs = append(errs, validateRule(&match.ExcludeResourceRules[i], path.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func validateRule(rule *admissionregistrationv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	list := func(name string, values []string) {
		switch {
		case len(values) == 0:
			errs = append(errs, field.Required(path.Child(name), ""))
		case len(values) > 1 && slices.Contains(values, "*"):
			errs = append(errs, field.Invalid(path.Child(name), values, "if '*' is present, must not specify other "+name))
		}
	}
	list("apiGroups", rule.APIGroups)
	list("apiVersions", rule.APIVersions)
	for i, v := range rule.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	operations := make([]string, 0, len(rule.Operations))
	for i, op := range rule.Operations {
		operations = append(operations, string(op))
		supported := []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll, admissionregistrationv1.Create,
			admissionregistrationv1.Update, admissionregistrationv1.Delete, admissionregistrationv1.Connect}
		if !slices.Contains(supported, op) {
			errs = append(errs, field.NotSupported(path.Child("operations").Index(i), op, supported))
		}
	}
	list("operations", operations)
	errs = append(errs, validateRuleResources(rule.Resources, path.Child("resources"))...)
	names := sets.New[string]()
	for i, name := range rule.ResourceNames {
		if names.Has(name) {
			errs = append(errs, field.Duplicate(path.Child("resourceNames").Index(i), name))
		}
		for _, msg := range content.IsPathSegmentName(name) {
			errs = append(errs, field.Invalid(path.Child("resourceNames").Index(i), name, msg))
		}
		names.Insert(name)
	}
	if s := rule.Scope; s != nil && *s != admissionregistrationv1.AllScopes && *s != admissionregistrationv1.ClusterScope && *s != admissionregistrationv1.NamespacedScope {
		errs = append(errs, field.NotSupported(path.Child("scope"), *s,
			[]admissionregistrationv1.ScopeType{admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope, admissionregistrationv1.AllScopes}))
	}
	return errs
}

// validateRuleResources refuses what a wildcard beside it says already.
func validateRuleResources(list []string, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	// all and whole are whether * and */* are there, plain whether a resource without a subresource is.
	all, whole, plain := false, false, false
	anySub, anyResource := sets.New[string](), sets.New[string]() // pods of pods/*, scale of */scale
	for i, r := range list {
		resource, sub, nested := strings.Cut(r, "/")
		switch {
		case r == "" || resource == "" || (nested && sub == ""):
			errs = append(errs, field.Invalid(path.Index(i), r, "must be a resource, a resource/subresource, or a wildcard for either"))
			continue
		case r == "*/*":
			whole = true
		case r == "*":
			all = true
		}
		switch {
		case !nested:
			plain = plain || r != "*"
		case anySub.Has(resource):
			errs = append(errs, field.Invalid(path.Index(i), r, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, r)))
		case anyResource.Has(sub):
			errs = append(errs, field.Invalid(path.Index(i), r, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, r)))
		}
		if nested && sub == "*" {
			anySub.Insert(resource)
		}
		if nested && resource == "*" {
			anyResource.Insert(sub)
		}
	}
	if len(list) > 1 && whole {
		errs = append(errs, field.Invalid(path, list, "if '*/*' is present, must not specify other resources"))
	}
	if all && plain {
		errs = append(errs, field.Invalid(path, list, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
