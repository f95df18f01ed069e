package policy

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/policies"
	"weir.dev/weir/server/rest"
)

// maxTypesToCheck bounds the kinds that a policy is checked against, as upstream.
const maxTypesToCheck = 10

// CheckedSource has the expressions of a ValidatingAdmissionPolicy that are checked against the kinds it concerns:
// validations and their messages, as upstream, and then all others.
func CheckedSource(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) *policies.Source {
	var list []policies.Expression
	for i := range spec.Validations {
		at := fmt.Sprintf("spec.validations[%d]", i)
		list = append(list, policies.Expression{Path: at + ".expression", Text: spec.Validations[i].Expression})
		if text := spec.Validations[i].MessageExpression; text != "" {
			list = append(list, policies.Expression{Path: at + ".messageExpression", Text: text})
		}
	}
	src := checkedSource(list, spec.MatchConditions, spec.Variables)
	for i := range spec.AuditAnnotations {
		src.Expressions = append(src.Expressions, policies.Expression{Path: fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), Text: spec.AuditAnnotations[i].ValueExpression})
	}
	return src
}

// CheckedMutations has those of a MutatingAdmissionPolicy. Upstream checks none of them.
func CheckedMutations(spec *admissionregistrationv1.MutatingAdmissionPolicySpec) *policies.Source {
	var list []policies.Expression
	for i, m := range spec.Mutations {
		at := fmt.Sprintf("spec.mutations[%d]", i)
		if m.ApplyConfiguration != nil {
			list = append(list, policies.Expression{Path: at + ".applyConfiguration.expression", Text: m.ApplyConfiguration.Expression, Want: policies.ApplyConfiguration})
		}
		if m.JSONPatch != nil {
			list = append(list, policies.Expression{Path: at + ".jsonPatch.expression", Text: m.JSONPatch.Expression, Want: policies.JSONPatch})
		}
	}
	return checkedSource(list, spec.MatchConditions, spec.Variables)
}

// checkedSource adds match conditions and variables. A variable that is wrong is dyn to the others.
func checkedSource(list []policies.Expression, conditions []admissionregistrationv1.MatchCondition, variables []admissionregistrationv1.Variable) *policies.Source {
	src := &policies.Source{Inputs: policies.Inputs(), Authorizer: true, Admission: true, Variables: policies.VariablesOf("spec.variables", variableTexts(variables)), Expressions: list}
	for _, c := range policies.VariablesOf("spec.matchConditions", ConditionTexts(conditions)) {
		src.Expressions = append(src.Expressions, c.Expression)
	}
	for _, v := range src.Variables {
		src.Expressions = append(src.Expressions, v.Expression)
	}
	return src
}

// CheckedKinds are the kinds that the expressions of a policy are checked against, in their order: those that its rules
// name without a wildcard, where they are served. The first ten of a rule end the search, as upstream.
func CheckedKinds(catalog rest.Catalog, constraints *admissionregistrationv1.MatchResources) []schema.GroupVersionKind {
	if constraints == nil {
		return nil
	}
	var kinds []schema.GroupVersionKind
	for i := range constraints.ResourceRules {
		count := 0
		for _, gvr := range checkedResources(&constraints.ResourceRules[i].Rule) {
			r := catalog.Resource(gvr.Group, gvr.Resource)
			if r == nil || r.Version(gvr.Version) == nil {
				continue
			}
			if kind := (schema.GroupVersionKind{Group: r.Group, Version: gvr.Version, Kind: r.Kind}); !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			if count++; count == maxTypesToCheck {
				return sortKinds(kinds)
			}
		}
	}
	return sortKinds(kinds)
}

func checkedResources(rule *admissionregistrationv1.Rule) []schema.GroupVersionResource {
	wild := func(text string) bool { return strings.Contains(text, all) }
	if slices.ContainsFunc(rule.APIGroups, wild) || slices.ContainsFunc(rule.APIVersions, wild) {
		return nil
	}
	var list []schema.GroupVersionResource
	for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(rule.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(rule.Resources)) {
				if !strings.ContainsAny(resource, "*/") {
					list = append(list, schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
				}
			}
		}
	}
	return list
}

func sortKinds(kinds []schema.GroupVersionKind) []schema.GroupVersionKind {
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		if c := strings.Compare(a.Version, b.Version); c != 0 {
			return c
		}
		return strings.Compare(a.Kind, b.Kind)
	})
	return kinds
}

// SchemaOf returns what knows the schema of a kind; nil where the kind is not served or has none.
func SchemaOf(catalog rest.Catalog, kind schema.GroupVersionKind) rest.OpenAPISource {
	for _, r := range catalog.Resources() {
		if r.Group == kind.Group && r.Kind == kind.Kind {
			if v := r.Version(kind.Version); v != nil {
				return v.OpenAPI
			}
		}
	}
	return nil
}
