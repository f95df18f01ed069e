package policies_test

import (
	"context"
	"testing"

	"weir.dev/weir/policies"
)

// plainJudge admits. It cannot tell what it reads.
type plainJudge struct{}

func (plainJudge) Judge(context.Context, *policies.Review) (*policies.Decision, error) {
	return &policies.Decision{}, nil
}

// mentioningJudge mentions one input.
type mentioningJudge struct {
	plainJudge
	input string
}

func (j mentioningJudge) Mentions(input string) bool { return input == j.input }

// lateJudge takes all inputs while it judges.
type lateJudge struct{ plainJudge }

func (lateJudge) ReadsLate(string) bool { return true }

// A judge that is asked under conditions reads what it and they read.
func TestWhenMentions(t *testing.T) {
	tests := []struct {
		name      string
		judge     policies.Judge
		condition string
		want      map[string]bool
		late      map[string]bool
	}{
		{"nobody knows", plainJudge{}, "x", map[string]bool{"request": true, "namespaceObject": true}, nil},
		{"the judge", mentioningJudge{input: "namespaceObject"}, "x", map[string]bool{"namespaceObject": true}, nil},
		{"the conditions", mentioningJudge{}, "request", map[string]bool{"request": true}, nil},
		{"conditions see no namespace", mentioningJudge{}, "namespaceObject", map[string]bool{}, nil},
		{"late", lateJudge{}, "x", map[string]bool{"request": true, "namespaceObject": true}, map[string]bool{"request": true, "namespaceObject": true}},
		{"late, and the conditions before", lateJudge{}, "request", map[string]bool{"request": true, "namespaceObject": true}, map[string]bool{"namespaceObject": true}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			conditions, err := policies.CompileConditions(&countingEngine{}, "spec.matchConditions", []policies.NamedText{{Name: "c", Expression: tc.condition}})
			if err != nil {
				t.Fatal(err)
			}
			judge, ok := policies.When(conditions, tc.judge).(interface {
				Mentions(input string) bool
				ReadsLate(input string) bool
			})
			if !ok {
				t.Fatal("it cannot tell")
			}
			for _, input := range []string{"request", "namespaceObject"} {
				if got := judge.Mentions(input); got != tc.want[input] {
					t.Errorf("%s: %v", input, got)
				}
				if got := judge.ReadsLate(input); got != tc.late[input] {
					t.Errorf("%s late: %v", input, got)
				}
			}
		})
	}
}
