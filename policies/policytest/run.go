package policytest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"weir.dev/weir/abi/document"
)

// Subject is an implementation of a strategy.
type Subject interface {
	// Run calls a hook. old is nil unless the hook is one of an update. A hook that the
	// implementation does not have returns obj, or nothing. The error is that the hook could
	// not do its work.
	Run(ctx context.Context, hook string, obj, old *document.Document) (Outcome, error)
}

// Run runs every case as a subtest.
func Run[S T[S]](t S, suites []*Suite, subject Subject) {
	t.Helper()
	for _, suite := range suites {
		t.Run(suite.Name, func(t S) {
			for _, c := range suite.Cases {
				t.Run(c.Name, func(t S) {
					for _, problem := range Check(t.Context(), c, subject) {
						t.Error(problem)
					}
				})
			}
		})
	}
}

// Check runs one case and says in what the outcome differs.
func Check(ctx context.Context, c *Case, subject Subject) (problems []string) {
	got, err := subject.Run(ctx, c.Hook, c.Object, c.OldObject)
	if err != nil {
		return []string{fmt.Sprintf("%s failed: %v", c.Hook, err)}
	}
	if c.Expect.Object != nil {
		obj := got.Object
		if obj == nil {
			obj = c.Object
		}
		if diff := cmp.Diff(c.Expect.Object.Root().Interface(), obj.Root().Interface()); diff != "" {
			problems = append(problems, "object differs (-want +got):\n"+diff)
		}
	}
	left := slices.Clone(got.Errors)
	for _, want := range c.Expect.Errors {
		i := slices.IndexFunc(left, want.matches)
		if i < 0 {
			problems = append(problems, "missing error: "+want.String())
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, e := range left {
		problems = append(problems, "unexpected error: "+e.String())
	}
	if !slices.Equal(c.Expect.Warnings, got.Warnings) {
		problems = append(problems, fmt.Sprintf("warnings differ:\nwant\n  %s\ngot\n  %s",
			strings.Join(c.Expect.Warnings, "\n  "), strings.Join(got.Warnings, "\n  ")))
	}
	return problems
}
