package cel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir.dev/weir/policies"
)

// An error of a variable names those that failed for it, upstream's way, but not a hundred of them.
func TestErrorsOfVariables(t *testing.T) {
	src := &policies.Source{Inputs: []string{"object"}, Expressions: []policies.Expression{{Path: "e", Text: "variables.v9 == 1", Want: policies.Bool}}}
	for i := range 10 {
		text := "object.absent"
		if i > 0 {
			text = fmt.Sprintf("variables.v%d", i-1)
		}
		src.Variables = append(src.Variables, policies.Variable{Name: fmt.Sprint("v", i), Expression: policies.Expression{Path: "v", Text: text}})
	}
	program, err := newEngine(t, Config{}).Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	run := program.Begin()
	run.Bind(0, mustDoc(t, object).Root())
	_, err = run.Eval(t.Context(), 0, nil)
	const want = `composited variable "v3" fails to evaluate: composited variable "v2" fails to evaluate: composited variable "v1" fails to evaluate: ` +
		`composited variable "v0" fails to evaluate: no such key: absent`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Too many expressions are an issue with the first that is too much.
func TestTooManyExpressions(t *testing.T) {
	variables := []policies.Variable{{Name: "v", Expression: policies.Expression{Path: "variables[0]", Text: "1"}}}
	list := make([]policies.Expression, maxExpressions)
	for i := range list {
		list[i] = policies.Expression{Path: fmt.Sprintf("validations[%d].expression", i), Text: "true", Want: policies.Bool}
	}
	_, err := newEngine(t, Config{}).Compile(&policies.Source{Variables: variables, Expressions: list})
	var issues policies.Issues
	if !errors.As(err, &issues) || issues[0].Path != "validations[4095].expression" || issues[0].Message != "4097 expressions are more than 4096" {
		t.Errorf("got %v", err)
	}
}

// What an audit annotation cannot be is refused when it is compiled.
func TestStringOrNull(t *testing.T) {
	tests := []struct{ text, want string }{
		{"'v'", ""}, {"null", ""}, {"object.s", ""},
		{"1", "must evaluate to string or null, not int"},
		{"['v']", "must evaluate to string or null, not list(string)"},
		{" ", "an expression is required"},
	}
	for _, tc := range tests {
		t.Run(tc.text, func(t *testing.T) {
			_, err := newEngine(t, Config{}).Compile(&policies.Source{Inputs: []string{"object"}, Expressions: []policies.Expression{{Path: "e", Text: tc.text, Want: policies.StringOrNull}}})
			switch {
			case tc.want == "" && err != nil, tc.want != "" && err == nil:
				t.Errorf("got %v", err)
			case err != nil && !strings.Contains(err.Error(), tc.want):
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
