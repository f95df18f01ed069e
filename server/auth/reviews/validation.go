package reviews

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSubject says what is wrong with a question about a user.
func validateSubject(spec authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return errs
}

func validateLocal(in *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := append(validateSubject(in.Spec), validateEmptyMeta(in.ObjectMeta, true)...)
	if a := in.Spec.ResourceAttributes; a != nil && a.Namespace != in.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := in.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"), a, "disallowed on this kind of request"))
	}
	return errs
}

// validateEmptyMeta: a review is not an object that could have a name.
func validateEmptyMeta(m metav1.ObjectMeta, namespaced bool) field.ErrorList {
	m.ManagedFields = nil
	text := "must be empty"
	if namespaced {
		m.Namespace = ""
		text = "must be empty except for namespace"
	}
	if apiequality.Semantic.DeepEqual(metav1.ObjectMeta{}, m) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, text)}
}

func validateAttributes(resource *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) field.ErrorList {
	var errs field.ErrorList
	if (resource == nil) == (other == nil) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), other, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if resource == nil {
		return errs
	}
	path := field.NewPath("spec", "resourceAttributes")
	if s := resource.FieldSelector; s != nil {
		path := path.Child("fieldSelector")
		errs = append(errs, validateSelector(s.RawSelector, len(s.Requirements), path)...)
		for i, r := range s.Requirements {
			// Operators of newer clients are let through, and not counted.
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r,
				metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	if s := resource.LabelSelector; s != nil {
		path := path.Child("labelSelector")
		errs = append(errs, validateSelector(s.RawSelector, len(s.Requirements), path)...)
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r,
				metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func validateSelector(raw string, requirements int, path *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), "when "+path.String()+" is specified, requirements or rawSelector is required")}
	}
	return nil
}
