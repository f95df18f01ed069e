package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// validateRole says what is wrong with a Role or ClusterRole beyond its schema, which requires what must be there at
// all, such as verbs. Rules of upstream's pkg/apis/rbac/validation.
func validateRole(obj, old *document.Document, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range obj.Get("rules").Elements() {
		errs = append(errs, validateRule(rule, namespaced, field.NewPath("rules").Index(i))...)
	}
	aggregation := obj.Get("aggregationRule")
	if namespaced || aggregation.Kind() != document.Object {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	selectors := aggregation.Get("clusterRoleSelectors")
	if selectors.Len() == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	// A selector that was let in by an older server may stay.
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: old != nil && hasBadSelector(old)}
	for i, v := range selectors.Elements() {
		errs = append(errs, validateSelector(v, options, path.Index(i))...)
	}
	return errs
}

func validateSelector(v document.Value, options metav1validation.LabelSelectorValidationOptions, path *field.Path) field.ErrorList {
	var selector metav1.LabelSelector
	if err := unmarshal(v, &selector); err != nil {
		return nil // the schema says so
	}
	errs := metav1validation.ValidateLabelSelector(&selector, options, path)
	if _, err := metav1.LabelSelectorAsSelector(&selector); err != nil {
		errs = append(errs, field.Invalid(path, selector, "invalid label selector."))
	}
	return errs
}

func hasBadSelector(obj *document.Document) bool {
	for _, v := range obj.Get("aggregationRule", "clusterRoleSelectors").Elements() {
		if len(validateSelector(v, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
			return true
		}
	}
	return false
}

func validateRule(rule document.Value, namespaced bool, path *field.Path) field.ErrorList {
	if rule.Kind() != document.Object {
		return nil
	}
	var errs field.ErrorList
	if urls := rule.Get("nonResourceURLs"); urls.Len() > 0 {
		if namespaced {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), urls.Interface(), "namespaced rules cannot apply to non-resource URLs"))
		}
		if rule.Get("apiGroups").Len() > 0 || rule.Get("resources").Len() > 0 || rule.Get("resourceNames").Len() > 0 {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), urls.Interface(), "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if rule.Get("apiGroups").Len() == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if rule.Get("resources").Len() == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}

// validateBinding says what is wrong with a RoleBinding or ClusterRoleBinding beyond its schema.
func validateBinding(obj *document.Document, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("roleRef")
	ref := obj.Get("roleRef")
	switch ref.Kind() {
	case document.Absent, document.Null:
		errs = append(errs, field.Required(path, ""))
	case document.Object:
		if group := ref.Get("apiGroup"); group.Kind() == document.String && group.String() != rbacv1.GroupName {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), group.String(), []string{rbacv1.GroupName}))
		}
		kinds := []string{"ClusterRole"}
		if namespaced {
			kinds = []string{"Role", "ClusterRole"}
		}
		if kind := ref.Get("kind"); kind.Kind() == document.String && kind.String() != "ClusterRole" && (!namespaced || kind.String() != "Role") {
			errs = append(errs, field.NotSupported(path.Child("kind"), kind.String(), kinds))
		}
		if name := ref.Get("name"); name.Kind() == document.String {
			if name.String() == "" {
				errs = append(errs, field.Required(path.Child("name"), ""))
			} else {
				for _, msg := range rest.PathSegmentName(name.String(), false) {
					errs = append(errs, field.Invalid(path.Child("name"), name.String(), msg))
				}
			}
		}
	}
	for i, s := range obj.Get("subjects").Elements() {
		if s.Kind() == document.Object {
			errs = append(errs, validateSubject(s, namespaced, field.NewPath("subjects").Index(i))...)
		}
	}
	return errs
}

func validateSubject(s document.Value, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	name, group := s.Get("name"), s.Get("apiGroup").String()
	if name.Kind() == document.String && name.String() == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	kind := s.Get("kind")
	if kind.Kind() != document.String {
		return errs
	}
	switch kind.String() {
	case rbacv1.ServiceAccountKind:
		if name.String() != "" {
			for _, msg := range apivalidation.ValidateServiceAccountName(name.String(), false) {
				errs = append(errs, field.Invalid(path.Child("name"), name.String(), msg))
			}
		}
		if group != "" {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), group, []string{""}))
		}
		if !namespaced && s.Get("namespace").String() == "" {
			errs = append(errs, field.Required(path.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		if group != rbacv1.GroupName {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), group, []string{rbacv1.GroupName}))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), kind.String(),
			[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}
