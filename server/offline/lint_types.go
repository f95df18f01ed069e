package offline

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

// typeError is how cel-go says what is wrong: ERROR: <input>:1:13: undefined field 'replica'.
var typeError = regexp.MustCompile(`(?m)^ERROR: <input>:(\d+):(\d+): (.*)$`)

// mistyped is what is wrong at one place, for some kinds.
type mistyped struct {
	issue policies.Issue
	kinds []string
}

// types compares the expressions of a policy with the kinds that it concerns, as the server does for its status. What all
// kinds lack is an error.
func (l *linter) types(obj *document.Document, t *texts) {
	if l.cfg.Types == nil {
		return
	}
	var constraints *admissionregistrationv1.MatchResources
	if from := obj.Get("spec", "matchConstraints"); from.Exists() {
		if json.Unmarshal(from.Raw(), &constraints) != nil {
			return
		}
	}
	src := &policies.Source{Inputs: policies.Inputs(), Authorizer: true, Admission: true, Variables: policies.VariablesOf("spec.variables", t.variables)}
	for _, c := range policies.VariablesOf("spec.matchConditions", t.conditions) {
		src.Expressions = append(src.Expressions, c.Expression)
	}
	for _, v := range src.Variables {
		src.Expressions = append(src.Expressions, v.Expression)
	}
	src.Expressions = append(append(src.Expressions, t.judging...), t.others...)
	catalog := &catalog{resources: l.set.resources}
	var params rest.OpenAPISource
	if kind := obj.Get("spec", "paramKind"); kind.Exists() {
		params = policy.SchemaOf(catalog, schemaKind(kind))
	}
	checked := 0
	found := make([][]mistyped, len(src.Expressions))
	for _, kind := range policy.CheckedKinds(catalog, constraints) {
		object := policy.SchemaOf(catalog, kind)
		if object == nil {
			continue
		}
		said, err := l.cfg.Types.CheckTypes(src, object, params)
		if err != nil {
			continue
		}
		checked++
		for i, text := range said {
			found[i] = noteTypes(found[i], src.Expressions[i], text, kind.String())
		}
	}
	for _, list := range found {
		for _, m := range list {
			severity := Error
			if len(m.kinds) < checked {
				severity = Warning
			}
			m.issue.Message += ", for " + strings.Join(m.kinds, "; ")
			l.issue(severity, "type", m.issue)
		}
	}
}

// noteTypes adds what is said of an expression for a kind.
func noteTypes(list []mistyped, x policies.Expression, text, kind string) []mistyped {
	for _, m := range typeError.FindAllStringSubmatch(text, -1) {
		line, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		issue := policies.Issue{Path: x.Path, Text: x.Text, Line: line, Column: column, Message: m[3]}
		known := false
		for i := range list {
			if list[i].issue == issue {
				list[i].kinds = append(list[i].kinds, kind)
				known = true
			}
		}
		if !known {
			list = append(list, mistyped{issue, []string{kind}})
		}
	}
	return list
}
