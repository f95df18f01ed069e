package policytest_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
)

func load(text string) ([]*policytest.Suite, error) {
	return policytest.Load(fstest.MapFS{"d/a.yaml": {Data: []byte(text)}}, "d")
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no cases", `base: {}`, "d/a.yaml: no cases"},
		{"hook", `cases: [{name: a, hook: validate, object: {}}]`, `d/a.yaml: case 0 "a": hook "validate" does not exist`},
		{"field", `cases: [{name: a, hook: default, objekt: {}}]`, `d/a.yaml: case 0 "a": unknown field "objekt"`},
		{"no object", `cases: [{name: a, hook: default}]`, `d/a.yaml: case 0 "a": no object`},
		{"no base", `cases: [{name: a, hook: default, change: {}}]`, `d/a.yaml: case 0 "a": object: there is no base to change`},
		{"old object", `cases: [{name: a, hook: default, object: {}, oldObject: {}}]`, `d/a.yaml: case 0 "a": hook default has no old object`},
		{"expectation", `cases: [{name: a, hook: validateCreate, object: {}, expect: {warnings: []}}]`, `d/a.yaml: case 0 "a": expect: unknown field "warnings"`},
		{"name twice", `cases: [{name: a, hook: default, object: {}}, {name: a, hook: default, object: {}}]`, `d/a.yaml: case 1: name "a" is empty or taken`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := load(tc.text); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// answer is a subject that always gives the same.
type answer policytest.Outcome

func (a answer) Run(context.Context, string, *document.Document, *document.Document) (policytest.Outcome, error) {
	return policytest.Outcome(a), nil
}

func TestCheck(t *testing.T) {
	detail := "d"
	value, err := document.Parse([]byte(`1`))
	if err != nil {
		t.Fatal(err)
	}
	fault := policytest.FieldError{Type: "T", Field: "f", Value: value, Detail: &detail}
	tests := []struct {
		name, text string
		got        answer
		want       string // in the first problem
	}{
		{"passes", `{hook: validateCreate, expect: {errors: [{type: T, field: f, value: 1, detail: d}]}}`, answer{Errors: []policytest.FieldError{fault}}, ""},
		{"value and detail are optional", `{hook: validateCreate, expect: {errors: [{type: T, field: f}]}}`, answer{Errors: []policytest.FieldError{fault}}, ""},
		{"value", `{hook: validateCreate, expect: {errors: [{type: T, field: f, value: 2}]}}`, answer{Errors: []policytest.FieldError{fault}}, "missing error: T f 2"},
		{"detail", `{hook: validateCreate, expect: {errors: [{type: T, field: f, detail: ""}]}}`, answer{Errors: []policytest.FieldError{fault}}, "missing error"},
		{"missing", `{hook: validateCreate, expect: {errors: [{type: T, field: f}]}}`, answer{}, "missing error: T f"},
		{"unexpected", `{hook: validateCreate}`, answer{Errors: []policytest.FieldError{fault}}, `unexpected error: T f 1 "d"`},
		{"once is not twice", `{hook: validateCreate, expect: {errors: [{type: T, field: f}]}}`, answer{Errors: []policytest.FieldError{fault, fault}}, "unexpected error"},
		{"warnings", `{hook: warningsOnCreate, expect: {warnings: [a, b]}}`, answer{Warnings: []string{"b", "a"}}, "warnings differ"},
		{"object", `{hook: default, expect: {change: {x: 2}}}`, answer{}, "object differs"},
		{"object as it was", `{hook: default}`, answer{}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			suites, err := load("base: {x: 1}\ncases: [" + strings.Replace(tc.text, "{", "{name: a, ", 1) + "]")
			if err != nil {
				t.Fatal(err)
			}
			problems := policytest.Check(t.Context(), suites[0].Cases[0], tc.got)
			switch {
			case tc.want == "" && len(problems) > 0:
				t.Errorf("got %q", problems)
			case tc.want != "" && (len(problems) == 0 || !strings.Contains(problems[0], tc.want)):
				t.Errorf("got %q, want %q", problems, tc.want)
			}
		})
	}
}

// TestLibraryLoads guards the files themselves; server/extension runs them.
func TestLibraryLoads(t *testing.T) {
	suites, err := policytest.Load(library.FS, "deployment/cases")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range suites {
		n += len(s.Cases)
	}
	if n < 60 {
		t.Errorf("%d cases", n)
	}
}
