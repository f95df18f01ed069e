package policies_test

import (
	"fmt"
	"testing"

	"weir.dev/weir/policies"
)

func TestIssueString(t *testing.T) {
	tests := []struct {
		name  string
		issue policies.Issue
		want  string
	}{
		{"no position", policies.Issue{Path: "spec.x", Message: "is wrong"}, "spec.x: is wrong"},
		{"second line", policies.Issue{Path: "p", Text: "a\nbc d", Line: 2, Column: 4, Message: "m"}, "p:2:4: m\n | bc d\n | ...^"},
		{"a tab is one column", policies.Issue{Path: "p", Text: "\tx", Line: 1, Column: 2, Message: "m"}, "p:1:2: m\n |  x\n | .^"},
		{"characters, not bytes", policies.Issue{Path: "p", Text: "'ä' x", Line: 1, Column: 5, Message: "m"}, "p:1:5: m\n | 'ä' x\n | ....^"},
		{"behind the end", policies.Issue{Path: "p", Text: "ab", Line: 1, Column: 9, Message: "m"}, "p:1:9: m\n | ab\n | ..^"},
		{"no such line", policies.Issue{Path: "p", Text: "ab", Line: 3, Column: 1, Message: "m"}, "p:3:1: m"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.issue.String(); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
	if err := (policies.Issues{}).Err(); err != nil {
		t.Error("no issues are no error")
	}
}

func TestCostError(t *testing.T) {
	for want, err := range map[string]error{
		"cost limit exceeded: expression used 12 of 10":               &policies.CostError{Used: 12, Limit: 10},
		"cost limit exceeded: all expressions together used 12 of 10": &policies.CostError{Used: 12, Limit: 10, Run: true},
	} {
		if err.Error() != want {
			t.Errorf("got %s, want %s", err, want)
		}
	}
}

func ExampleIssues() {
	var err error = policies.Issues{{Path: "validations[0].expression", Text: "objekt.x > 0", Line: 1, Column: 1, Message: "undeclared reference to 'objekt'"}}
	fmt.Println(err)
	// Output:
	// validations[0].expression:1:1: undeclared reference to 'objekt'
	//  | objekt.x > 0
	//  | ^
}
