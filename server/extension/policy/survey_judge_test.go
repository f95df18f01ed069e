package policy

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// judges is a judge that a function is.
type judges func(ctx context.Context, r *policies.Review) (*policies.Decision, error)

func (f judges) Judge(ctx context.Context, r *policies.Review) (*policies.Decision, error) {
	return f(ctx, r)
}

// However late the time ends, what was not judged is where the survey goes on.
func TestSurveyEndsWhileItJudges(t *testing.T) {
	tests := []struct {
		name        string
		n, last     int64
		objects     int64
		skip        int
		resumedWith string
	}{
		{"the last object of all", 10, 9, 9, 9, ""},
		{"the last object of the first page", 2 * surveyPage, surveyPage - 1, surveyPage - 1, surveyPage - 1, ""},
		{"the last object of the last page", 2 * surveyPage, 2*surveyPage - 1, 2*surveyPage - 1, surveyPage - 1, "200"},
		{"one in the middle", 10, 4, 4, 4, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cfg := surveyOf(t, &herd{t: t, n: int(tc.n)})
			cfg.Policies[0].Judge = judges(func(ctx context.Context, r *policies.Review) (*policies.Decision, error) {
				if n, _ := r.Object.Get("spec", "n").Int(); n == tc.last {
					cancel()
				}
				return &policies.Decision{}, ctx.Err()
			})
			report, err := Survey(ctx, cfg, func(*Finding) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if report.Complete || report.Reason == "" || report.Next.Skip != tc.skip || report.Next.Continue != tc.resumedWith || report.Resources[0].Objects != tc.objects {
				t.Fatalf("got %+v %+v", report, report.Resources[0])
			}
			cfg.After = report.Next
			rest, err := Survey(t.Context(), cfg, func(*Finding) error { return nil })
			if err != nil || !rest.Complete || rest.Resources[0].Objects != tc.n-tc.objects {
				t.Errorf("the rest: %+v, %v", rest, err)
			}
		})
	}
}

// A survey runs mutating policies as a request does: again where they ask for it, and until they settle.
func TestSurveyMutatesAsARequest(t *testing.T) {
	m, err := NewMatch(rules("example.com", "sheep", "UPDATE"))
	if err != nil {
		t.Fatal(err)
	}
	mutator := func(name string, change edits) *Policy {
		return &Policy{Kind: "Policy", Name: name, Match: m, Reinvoke: true, Judge: change, Bindings: []*Binding{{Name: "b"}}}
	}
	tests := []struct {
		name string
		list []*Policy
		want string // part of a message of a failure
		sum  int64  // spec.a of what is validated
	}{
		{"one that does not settle", []*Policy{mutator("a", set("a", func(o *document.Document) int64 { return number(o, "a") + 1 }))}, "it does not settle", 1},
		{"one that follows a later one", []*Policy{
			mutator("a", set("a", func(o *document.Document) int64 { return 2 * number(o, "b") })),
			mutator("b", set("b", func(*document.Document) int64 { return 3 }))}, "", 6},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cfg := surveyOf(t, &herd{t: t, n: 1})
			received := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
			var seen int64
			var at time.Time
			cfg.Policies[0].Judge = judges(func(_ context.Context, r *policies.Review) (*policies.Decision, error) {
				seen, _ = r.Object.Get("spec", "a").Int()
				at = r.Time
				return &policies.Decision{}, nil
			})
			cfg.Policies = append(cfg.Policies, tc.list...)
			var failures []string
			if _, err := Survey(apirequest.WithReceivedTimestamp(t.Context(), received), cfg, func(f *Finding) error {
				if f.Verdict == VerdictFailed {
					failures = append(failures, f.Message)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(failures, "\n"); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got failures %q", got)
			}
			if seen != tc.sum || !at.Equal(received) {
				t.Errorf("what is validated has spec.a %d, at %v", seen, at)
			}
		})
	}
}

// What reads the namespaces of objects is not counted for whoever may not.
func TestSurveyAsksForNamespaces(t *testing.T) {
	cfg := surveyOf(t, &herd{t: t, n: 10})
	cfg.NamespaceReadable = func(_ context.Context, name string) bool { return name == "ns-0" }
	report, err := Survey(t.Context(), cfg, func(*Finding) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Resources[0]; r.Objects != 0 || r.NotCounted != `no permission to get namespaces, which policy "tenth" reads` {
		t.Errorf("got %+v", r)
	}
	cfg.Namespace = "ns-0"
	if report, err = Survey(t.Context(), cfg, func(*Finding) error { return nil }); err != nil || report.Resources[0].Objects != 10 {
		t.Errorf("got %+v, %v", report, err)
	}
}

// A survey whose state was compacted away goes on by key in a newer one; a storage that has none at all is an error.
func TestSurveyOutlivesItsState(t *testing.T) {
	for _, after := range []Cursor{{}, {Resource: "sheep.example.com", ResourceVersion: "3", Skip: 20}} {
		gone := 0
		h := &herd{t: t, n: 2 * surveyPage}
		h.expire = func(opts *internalversion.ListOptions) bool {
			if gone > 0 || opts.Continue == "" && opts.ResourceVersion == "" {
				return false
			}
			gone++
			return true
		}
		cfg := surveyOf(t, h)
		cfg.After = after
		report, err := Survey(t.Context(), cfg, func(*Finding) error { return nil })
		if err != nil || gone != 1 || !report.Complete || !report.Renewed || report.Resources[0].Objects != int64(h.n-after.Skip) {
			t.Errorf("after %+v: got %+v, %v", after, report, err)
		}
	}
	h := &herd{t: t, n: 10, expire: func(*internalversion.ListOptions) bool { return true }}
	if _, err := Survey(t.Context(), surveyOf(t, h), func(*Finding) error { return nil }); !apierrors.IsResourceExpired(err) || h.lists != 2 {
		t.Errorf("got %v after %d lists", err, h.lists)
	}
}
