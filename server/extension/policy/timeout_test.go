package policy

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/policies"
	"weir.dev/weir/server/rest"
)

// slowJudge judges until it is stopped.
type slowJudge struct{ asked *int }

// Judge implements policies.Judge.
func (j slowJudge) Judge(ctx context.Context, _ *policies.Review) (*policies.Decision, error) {
	*j.asked++
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Mentions implements Mentioner.
func (slowJudge) Mentions(string) bool { return false }

// TestTimeOfAllPolicies: no number of policies makes a request take longer than the time for all of them, and those
// that could not judge for it fail as they say.
func TestTimeOfAllPolicies(t *testing.T) {
	tests := []struct {
		name  string
		open  []bool // by policy: its failure policy is Ignore
		cause string // why the context of the request ended; "": it did not
		want  string
	}{
		{"all fail closed", []bool{false, false}, "", "ValidatingAdmissionPolicy 'p0' with binding 'b' denied request: the policies of the request took longer than 1ns together"},
		{"all fail open", []bool{true, true}, "", ""},
		{"the second fails closed", []bool{true, false}, "", "ValidatingAdmissionPolicy 'p1' with binding 'b' denied request: the policies of the request took longer than 1ns together"},
		{"the client is gone", []bool{true, true}, "client gone", "the admission policies could not be evaluated in time: client gone"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			x, ctx, create := matching(t, 0)
			asked := 0
			var list []*Policy
			for i, open := range tc.open {
				list = append(list, &Policy{Kind: validatingKind, Name: fmt.Sprint("p", i), FailOpen: open, Judge: slowJudge{&asked}, Bindings: []*Binding{{Name: "b", Deny: true}}})
			}
			ctx = rest.WithCatalog(ctx, policyCatalog{index: NewIndex(list)})
			x, err := NewAdmission(Config{Namespaces: x.namespaces, Timeout: time.Nanosecond})
			if err != nil {
				t.Fatal(err)
			}
			if tc.cause != "" {
				ended, end := context.WithCancelCause(ctx)
				end(fmt.Errorf("%s", tc.cause))
				ctx = ended
			}
			err = x.Validate(ctx, create())
			switch {
			case tc.want == "" && err != nil, tc.want != "" && err == nil:
				t.Fatalf("%v, want %q", err, tc.want)
			case err != nil:
				status, _ := err.(apierrors.APIStatus)
				message := status.Status().Message
				if message != tc.want && message != `widgets.example.com "w" is forbidden: `+tc.want && message != "Timeout: "+tc.want {
					t.Errorf("%s, want %s", message, tc.want)
				}
			}
			if tc.cause == "" && asked != len(tc.open) {
				t.Errorf("%d policies were asked", asked)
			}
		})
	}
	if err := (&Config{Namespaces: struct{ rest.Getter }{}, Timeout: -1}).Validate(); err == nil {
		t.Error("a negative time")
	}
}
