package policytest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/policies/rego"
)

// TestLibrary runs the cases of all admission policies on each engine they are written for.
func TestLibrary(t *testing.T) {
	rules, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	conditions, err := rules.WithLimits(cel.Config{RunLimit: policies.MatchConditionLimit})
	if err != nil {
		t.Fatal(err)
	}
	metered, err := rules.WithLimits(cel.Config{AlwaysMeter: true})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := rego.New(rego.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := library.Policies()
	if err != nil {
		t.Fatal(err)
	}
	inRego := 0
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			p, err := policytest.LoadPolicy(library.FS, dir)
			if err != nil {
				t.Fatal(err)
			}
			if name := p.Policy.Get("metadata", "name").String(); name != dir {
				t.Errorf("name is %q", name)
			}
			for name, e := range map[string]policies.Engines{"cel": {Conditions: conditions, Rules: rules}, "cel metered": {Conditions: conditions, Rules: metered}} {
				t.Run(name, func(t *testing.T) {
					judge, err := policies.CompileExpressions(e, p.Expressions)
					if err != nil {
						t.Fatal(err)
					}
					policytest.RunPolicy(t, p, judge)
				})
			}
			if p.Rego == "" {
				return
			}
			inRego++
			t.Run("rego", func(t *testing.T) {
				judge, err := engine.Compile(&rego.Source{Path: dir, Modules: []rego.Module{{Name: "policy.rego", Text: p.Rego}}})
				if err != nil {
					t.Fatal(err)
				}
				policytest.RunPolicy(t, p, judge)
			})
		})
	}
	if len(dirs) < 9 || inRego < 3 {
		t.Errorf("%d policies, %d in Rego", len(dirs), inRego)
	}
}

// TestLibraryIsListed compares the directories with the table of the library's README.
func TestLibraryIsListed(t *testing.T) {
	readme, err := os.ReadFile("../library/README.md")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := library.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(string(readme), "| `"+e.Name()+"` |") {
			t.Errorf("README.md does not list %s", e.Name())
		}
	}
}

const policyYAML = `{kind: ValidatingAdmissionPolicy, spec: {validations: [{expression: "true"}]}}`

func loadPolicy(policy, cases string) (*policytest.PolicyDir, error) {
	return policytest.LoadPolicy(fstest.MapFS{
		"d/policy.yaml":    {Data: []byte(policy)},
		"d/params.yaml":    {Data: []byte("{a: 1}")},
		"d/cases/all.yaml": {Data: []byte(cases)},
	}, "d")
}

func TestLoadPolicyRefuses(t *testing.T) {
	tests := []struct{ name, policy, cases, want string }{
		{"kind", `{kind: Policy}`, "", `d/policy.yaml: kind is "Policy", not ValidatingAdmissionPolicy`},
		{"field", `{kind: ValidatingAdmissionPolicy, spec: {validation: []}}`, "", `d/policy.yaml: spec: unknown field "validation"`},
		{"field of a validation", `{kind: ValidatingAdmissionPolicy, spec: {validations: [{expr: a}]}}`, "", `d/policy.yaml: spec.validations: unknown field "expr"`},
		{"no cases", policyYAML, `base: {}`, "d/cases/all.yaml: no cases"},
		{"field of a case", policyYAML, `cases: [{name: a, objekt: {}}]`, `d/cases/all.yaml: case 0 "a": unknown field "objekt"`},
		{"expect", policyYAML, `cases: [{name: a, object: {}, expect: yes}]`, `d/cases/all.yaml: case 0 "a": expect is "", not allowed, denied, failed or unmatched`},
		{"no object", policyYAML, `cases: [{name: a, expect: allowed}]`, `d/cases/all.yaml: case 0 "a": no object`},
		{"no old object", policyYAML, `cases: [{name: a, operation: UPDATE, object: {}, expect: allowed}]`, `d/cases/all.yaml: case 0 "a": no old object`},
		{"an object that is deleted", policyYAML, `cases: [{name: a, operation: DELETE, object: {}, expect: allowed}]`, `d/cases/all.yaml: case 0 "a": what is deleted is the old object`},
		{"an old object that is created", policyYAML, `cases: [{name: a, operation: CREATE, object: {}, oldObject: {}, expect: allowed}]`, `d/cases/all.yaml: case 0 "a": a creation has no old object`},
		{"operation", policyYAML, `cases: [{name: a, operation: PATCH, object: {}, expect: allowed}]`, `d/cases/all.yaml: case 0 "a": operation "PATCH" does not exist`},
		{"name twice", policyYAML, `cases: [{name: a, object: {}, expect: allowed}, {name: a, object: {}, expect: allowed}]`, `d/cases/all.yaml: case 1: name "a" is empty or taken`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := loadPolicy(tc.policy, tc.cases); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestPolicyCase(t *testing.T) {
	p, err := loadPolicy(policyYAML, `{base: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: s}}, cases: [
		{name: create, expect: allowed},
		{name: update, oldChange: {x: 1}, params: null, expect: allowed},
		{name: delete, operation: DELETE, request: {userInfo: {username: u}}, expect: allowed}]}`)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ operation, object, old, params, user string }{
		{"CREATE", "web", "", `{"a":1}`, "tester"},
		{"UPDATE", "web", "web", "null", "tester"},
		{"DELETE", "", "web", `{"a":1}`, "u"},
	}
	for i, tc := range tests {
		r := p.Suites[0].Cases[i].Review
		got := []string{
			r.Request.Get("operation").String(), r.Object.Get("metadata", "name").String(), r.OldObject.Get("metadata", "name").String(),
			string(r.Params.Raw()), r.Request.Get("userInfo", "username").String(), r.Request.Get("kind", "group").String(), r.Request.Get("namespace").String(),
		}
		want := []string{tc.operation, tc.object, tc.old, tc.params, tc.user, "apps", "s"}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// verdict is a judge that always says the same.
type verdict struct {
	decision *policies.Decision
	err      error
}

func (v verdict) Judge(context.Context, *policies.Review) (*policies.Decision, error) {
	return v.decision, v.err
}

func TestCheckPolicy(t *testing.T) {
	denied := &policies.Decision{Denials: []policies.Denial{{Message: "a"}, {Message: "b"}}, Warnings: []string{"w"}}
	failed := &policies.Decision{Denials: []policies.Denial{{Message: "a"}, {Message: "b", Err: errors.New("b")}}}
	tests := []struct {
		name, text string
		got        verdict
		want       string // in the first problem
	}{
		{"allowed", `{expect: allowed, messages: [], warnings: []}`, verdict{decision: &policies.Decision{}}, ""},
		{"denied", `{expect: denied, messages: [b, a], warnings: [w]}`, verdict{decision: denied}, ""},
		{"messages are optional", `{expect: denied}`, verdict{decision: denied}, ""},
		{"not allowed", `{expect: allowed}`, verdict{decision: denied}, `request is denied, want allowed: ["a" "b"]`},
		{"not denied", `{expect: denied}`, verdict{decision: &policies.Decision{}}, "request is allowed, want denied"},
		{"one too many", `{expect: denied, messages: [a]}`, verdict{decision: denied}, "messages differ"},
		{"a warning", `{expect: denied, warnings: []}`, verdict{decision: denied}, "warnings differ"},
		{"failed", `{expect: failed}`, verdict{decision: failed}, ""},
		{"failed as a whole", `{expect: failed, messages: [c]}`, verdict{err: errors.New("c")}, ""},
		{"a failure is no denial", `{expect: denied}`, verdict{decision: failed}, "request is failed, want denied"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p, err := loadPolicy(policyYAML, "cases: ["+strings.Replace(tc.text, "{", "{name: a, object: {}, ", 1)+"]")
			if err != nil {
				t.Fatal(err)
			}
			problems := policytest.CheckPolicy(t.Context(), p.Suites[0].Cases[0], tc.got)
			switch {
			case tc.want == "" && len(problems) > 0:
				t.Errorf("got %q", problems)
			case tc.want != "" && (len(problems) == 0 || !strings.Contains(problems[0], tc.want)):
				t.Errorf("got %q, want %q", problems, tc.want)
			}
		})
	}
}
