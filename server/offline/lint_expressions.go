package offline

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

// lintElements is how many elements every list, map and string has for which a cost is estimated: more than most objects
// have, and so few that an expression which is dear then is dear in earnest.
const lintElements = 100

var moduleKind = schema.GroupKind{Group: moduleResource.Group, Kind: "Module"}

func cloneResources(from map[schema.GroupResource]*rest.Resource) map[schema.GroupResource]*rest.Resource {
	return maps.Clone(from)
}

func schemaKind(v document.Value) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(v.Get("apiVersion").String(), v.Get("kind").String())
}

// texts are the expressions of a policy, apart from its match conditions.
type texts struct {
	conditions []policies.NamedText
	variables  []policies.NamedText
	// judging are those that decide: validations, or mutations. others give messages and annotations.
	judging, others []policies.Expression
}

// textsOf reads them. A Policy has match conditions alone.
func textsOf(kind string, obj *document.Document) (*texts, error) {
	t := &texts{}
	variables := func(from []admissionregistrationv1.Variable) {
		for _, v := range from {
			t.variables = append(t.variables, policies.NamedText{Name: v.Name, Expression: v.Expression})
		}
	}
	switch kind {
	case "ValidatingAdmissionPolicy":
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := json.Unmarshal(obj.Bytes(), p); err != nil {
			return nil, err
		}
		t.conditions = policy.ConditionTexts(p.Spec.MatchConditions)
		variables(p.Spec.Variables)
		for i, v := range p.Spec.Validations {
			at := fmt.Sprintf("spec.validations[%d]", i)
			t.judging = append(t.judging, policies.Expression{Path: at + ".expression", Text: v.Expression, Want: policies.Bool})
			if v.MessageExpression != "" {
				t.others = append(t.others, policies.Expression{Path: at + ".messageExpression", Text: v.MessageExpression, Want: policies.String})
			}
		}
		for i, a := range p.Spec.AuditAnnotations {
			t.others = append(t.others, policies.Expression{Path: fmt.Sprintf("spec.auditAnnotations[%d].valueExpression", i), Text: a.ValueExpression})
		}
	case "MutatingAdmissionPolicy":
		p := &admissionregistrationv1.MutatingAdmissionPolicy{}
		if err := json.Unmarshal(obj.Bytes(), p); err != nil {
			return nil, err
		}
		t.conditions = policy.ConditionTexts(p.Spec.MatchConditions)
		variables(p.Spec.Variables)
		for i, m := range p.Spec.Mutations {
			at := fmt.Sprintf("spec.mutations[%d]", i)
			switch {
			case m.ApplyConfiguration != nil:
				t.judging = append(t.judging, policies.Expression{Path: at + ".applyConfiguration.expression", Text: m.ApplyConfiguration.Expression, Want: policies.ApplyConfiguration})
			case m.JSONPatch != nil:
				t.judging = append(t.judging, policies.Expression{Path: at + ".jsonPatch.expression", Text: m.JSONPatch.Expression, Want: policies.JSONPatch})
			}
		}
	case "Policy":
		p := &v1alpha1.Policy{}
		if err := json.Unmarshal(obj.Bytes(), p); err != nil {
			return nil, err
		}
		t.conditions = policy.ConditionTexts(p.Spec.MatchConditions)
	}
	return t, nil
}

// expressions looks at those of a policy that compiles.
func (l *linter) expressions(kind string, obj *document.Document) {
	t, err := textsOf(kind, obj)
	if err != nil {
		return
	}
	l.types(obj, t)
	if kind == "Policy" {
		return
	}
	src := &policies.Source{Inputs: policies.Inputs(), Authorizer: true, Variables: policies.VariablesOf("spec.variables", t.variables),
		Expressions: append(append([]policies.Expression{}, t.judging...), t.others...)}
	l.unusedVariables(src)
	program, err := l.cfg.Engines.Rules.Compile(src)
	if err != nil {
		return
	}
	readsParams := false
	for i := range src.Expressions {
		readsParams = readsParams || program.Mentions(i, "params")
		if i < len(t.judging) && !looksAtRequest(program, i, src) {
			if kind == "MutatingAdmissionPolicy" {
				continue // a constant patch is nothing odd
			}
			l.note(Warning, "constant", src.Expressions[i].Path, "never looks at the object, the request or params: it says the same of everything")
		}
	}
	conditions, err := policies.CompileConditions(l.cfg.Engines.Conditions, "spec.matchConditions", t.conditions)
	if err == nil && conditions.Mentions("params") {
		readsParams = true
	}
	if !readsParams && obj.Get("spec", "paramKind").Exists() {
		l.note(Warning, "unused-params", "spec.paramKind", "no expression reads params")
	}
	l.costs(src)
}

// looksAtRequest reports whether an expression reads what comes with a request, itself or through variables.
func looksAtRequest(program policies.Program, i int, src *policies.Source) bool {
	for _, input := range []string{"object", "oldObject", "request", "namespaceObject", "params"} {
		if program.Mentions(i, input) {
			return true
		}
	}
	text := src.Expressions[i].Text
	for _, v := range src.Variables {
		text += "\n" + v.Text
	}
	return authorizerWord.MatchString(text)
}

var authorizerWord = regexp.MustCompile(`\bauthorizer\b`)

// unusedVariables warns of those that no expression after them names.
func (l *linter) unusedVariables(src *policies.Source) {
	for i, v := range src.Variables {
		var after strings.Builder
		for _, other := range src.Variables[i+1:] {
			after.WriteString(other.Text + "\n")
		}
		for _, e := range src.Expressions {
			after.WriteString(e.Text + "\n")
		}
		if !regexp.MustCompile(`\bvariables\s*\.\s*\??\s*` + regexp.QuoteMeta(v.Name) + `\b`).MatchString(after.String()) {
			at := strings.TrimSuffix(v.Path, ".expression")
			l.note(Warning, "unused-variable", at+".name", "variable %q is not used", v.Name)
		}
	}
}

// costs warns of expressions that come near the limit.
func (l *linter) costs(src *policies.Source) {
	estimator, ok := l.cfg.Engines.Rules.(policies.Estimator)
	if !ok {
		return
	}
	variables, expressions, err := estimator.Estimate(src, lintElements)
	if err != nil {
		return
	}
	warn := func(path string, cost uint64) {
		if cost <= policies.DefaultExpressionLimit/2 {
			return
		}
		known := fmt.Sprintf("%d", cost)
		if cost == math.MaxUint64 {
			known = "any amount"
		}
		l.add(Warning, "cost", path, l.places.at(path), "may cost %s where lists and texts have %d elements, and is stopped at %d; bound the lists, or say more with fewer loops in each other",
			known, lintElements, policies.DefaultExpressionLimit)
	}
	for i, cost := range variables {
		warn(src.Variables[i].Path, cost)
	}
	for i, cost := range expressions {
		warn(src.Expressions[i].Path, cost)
	}
}
