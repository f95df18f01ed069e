package policy

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/rest"
)

// lateJudge reads the namespace so many times, and admits a request that is in one named default.
type lateJudge struct {
	times int
	// impatient: it does not wait.
	impatient bool
}

func (lateJudge) ReadsLate(string) bool { return true }

// Judge implements policies.Judge.
func (j lateJudge) Judge(ctx context.Context, r *policies.Review) (*policies.Decision, error) {
	d := &policies.Decision{}
	if r.NamespaceObject.Exists() || r.Request.Exists() {
		d.Denials = append(d.Denials, policies.Denial{Message: "it was read before"})
	}
	for range j.times {
		if j.impatient {
			ended, end := context.WithCancel(ctx)
			end()
			ctx = ended
		}
		ns, err := r.Late.NamespaceObject(ctx)
		if err != nil {
			return nil, fmt.Errorf("the judge failed: %w", err)
		}
		if name := ns.Get("metadata", "name").String(); name != "default" {
			d.Denials = append(d.Denials, policies.Denial{Message: "it is in " + name})
		}
	}
	return d, nil
}

// countedNamespaces counts what is read.
type countedNamespaces struct {
	oneNamespace
	reads *int
}

func (n countedNamespaces) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	*n.reads++
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return n.oneNamespace.Get(ctx, name, opts)
}

// TestNamespaceIsReadLate: a judge that takes the namespace while it judges has it read when it does, once for all. When
// that fails the request ends, whatever the failure policy, as where it is read before.
func TestNamespaceIsReadLate(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "default")
	tests := []struct {
		name   string
		judges []lateJudge
		open   bool
		err    error
		reads  int
		want   string
	}{
		{name: "not wanted", judges: []lateJudge{{}, {}}, err: gone},
		{name: "wanted by all", judges: []lateJudge{{times: 2}, {times: 1}}, reads: 1},
		{name: "gone", judges: []lateJudge{{times: 1}}, open: true, err: gone, reads: 1, want: gone.Error()},
		{name: "one does not wait", judges: []lateJudge{{times: 1, impatient: true}, {times: 1}}, open: true, reads: 2},
		{name: "one does not wait, and fails closed", judges: []lateJudge{{times: 1, impatient: true}, {times: 1}}, reads: 2,
			want: `widgets.example.com "w" is forbidden: ValidatingAdmissionPolicy 'p0' with binding 'b' denied request: the judge failed: context canceled`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, ctx, create := matching(t, 0)
			reads := 0
			x, err := NewAdmission(Config{Namespaces: countedNamespaces{oneNamespace{tc.err}, &reads}})
			if err != nil {
				t.Fatal(err)
			}
			var list []*Policy
			for i, judge := range tc.judges {
				list = append(list, &Policy{Kind: validatingKind, Name: fmt.Sprint("p", i), FailOpen: tc.open, Judge: judge, Bindings: []*Binding{{Name: "b", Deny: true}}})
			}
			err = x.Validate(rest.WithCatalog(ctx, policyCatalog{index: NewIndex(list)}), create())
			if (err != nil) != (tc.want != "") || err != nil && err.Error() != tc.want {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if tc.want == gone.Error() && !errors.Is(err, gone) {
				t.Errorf("got %T", err)
			}
			if reads != tc.reads {
				t.Errorf("it was read %d times, want %d", reads, tc.reads)
			}
		})
	}
}
