package reviews

import (
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// labelRequirements returns what of s is understood, and an error for the rest: since requirements are ANDed, to
// ask with fewer of them is to ask for more.
func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		selector, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, err
		}
		requirements, _ := selector.Requirements()
		return requirements, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var out labels.Requirements
	var errs []error
	for _, r := range s.Requirements {
		operator, ok := operators[r.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, *requirement)
	}
	return out, errors.Join(errs...)
}

// fieldRequirements is labelRequirements for fields.
func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if len(s.Requirements) == 0 {
		if s.RawSelector == "" {
			return nil, nil
		}
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	operators := map[metav1.FieldSelectorOperator]selection.Operator{
		metav1.FieldSelectorOpIn: selection.Equals, metav1.FieldSelectorOpNotIn: selection.NotEquals}
	var out fields.Requirements
	var errs []error
	for _, r := range s.Requirements {
		operator, ok := operators[r.Operator]
		switch {
		case len(r.Values) > 1:
			errs = append(errs, errors.New("fieldSelectors do not yet support multiple values"))
		case !ok:
			errs = append(errs, fmt.Errorf("%q is not a supported field selector operator", r.Operator))
		case len(r.Values) != 1:
			errs = append(errs, fmt.Errorf("field selector operator %q must have one value", r.Operator))
		default:
			out = append(out, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
		}
	}
	return out, errors.Join(errs...)
}
