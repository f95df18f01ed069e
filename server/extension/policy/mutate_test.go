package policy

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// served is a catalog with policies.
type served struct {
	flock
	index *Index
}

func (s served) Policies() *Index { return s.index }

// edits is a Mutator that a function is.
type edits func(obj *document.Document) *document.Edit

func (edits) Holds(context.Context, *policies.Review) (bool, error) { return true, nil }
func (f edits) Mutate(_ context.Context, obj *document.Document, _ *policies.Review, _ Changer) (*document.Document, error) {
	return f(obj).Document()
}

func sheep(t *testing.T, text string) *admission.Attributes {
	t.Helper()
	obj, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &admission.Attributes{Operation: admission.Create, Object: obj, Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Sheep"},
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sheep"}, Namespace: "default", Name: "dolly"}
}

func admit(t *testing.T, list []*Policy, a *admission.Attributes) error {
	t.Helper()
	x, err := NewAdmission(Config{Namespaces: &namespacesByName{}})
	if err != nil {
		t.Fatal(err)
	}
	return x.Admit(rest.WithCatalog(t.Context(), served{index: NewIndex(list)}), a)
}

// number is a member of spec.
func number(obj *document.Document, name string) int64 {
	n, _ := obj.Get("spec", name).Int()
	return n
}

func set(name string, to func(obj *document.Document) int64) edits {
	return func(obj *document.Document) *document.Edit { return obj.Edit().Set(to(obj), "spec", name) }
}

// A second pass that still changes something is an error that names the policy.
func TestMutatorsSettle(t *testing.T) {
	m, err := NewMatch(rules("example.com", "sheep", "CREATE"))
	if err != nil {
		t.Fatal(err)
	}
	mutator := func(kind, name string, reinvoke bool, change edits) *Policy {
		return &Policy{Kind: kind, Name: name, Match: m, Reinvoke: reinvoke, Judge: change, Bindings: []*Binding{{Name: "b", Tally: &Tally{}}}}
	}
	grows := set("n", func(o *document.Document) int64 { return number(o, "n") + 1 })
	one := func(*document.Document) int64 { return 1 }
	tests := []struct {
		name string
		list []*Policy
		want int64
		err  string
	}{
		{"settles", []*Policy{mutator("Policy", "a", true, set("n", one))}, 1, ""},
		{"grows", []*Policy{mutator("Policy", "a", true, grows)}, 0, `policy 'a' with binding 'b' denied request: it does not settle: a further pass would change spec.n again`},
		{"grows, and is never called again", []*Policy{mutator("Policy", "a", false, grows)}, 1, ""},
		{"grows, as upstream lets it", []*Policy{mutator("MutatingAdmissionPolicy", "a", true, grows)}, 1, ""},
		{"follows a later one", []*Policy{
			mutator("Policy", "a", true, set("n", func(o *document.Document) int64 { return 2 * number(o, "m") })),
			mutator("Policy", "b", true, set("m", one))}, 2, ""},
		{"two that chase each other", []*Policy{
			mutator("Policy", "a", true, set("n", func(o *document.Document) int64 { return number(o, "m") + 1 })),
			mutator("Policy", "b", true, set("m", func(o *document.Document) int64 { return number(o, "n") + 1 }))}, 0, "it does not settle"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := sheep(t, `{"metadata":{"name":"dolly"},"spec":{}}`)
			switch err := admit(t, tc.list, a); {
			case tc.err == "":
				if n := number(a.Object, "n"); err != nil || n != tc.want {
					t.Errorf("got %d, %v", n, err)
				}
			case err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(tc.err, "policy ")):
				t.Errorf("got %v", err)
			default:
				if !apierrors.IsInvalid(err) {
					t.Errorf("got reason %s", apierrors.ReasonForError(err))
				}
			}
		})
	}
}

func TestConflictsAreCounted(t *testing.T) {
	m, err := NewMatch(rules("example.com", "sheep", "CREATE"))
	if err != nil {
		t.Fatal(err)
	}
	var list []*Policy
	for i := range 2 {
		list = append(list, &Policy{Kind: "Policy", Name: fmt.Sprint("p", i), Match: m, Judge: set("n", func(*document.Document) int64 { return int64(i) }),
			Bindings: []*Binding{{Name: "b", Tally: &Tally{}}}})
	}
	for range 3 {
		if err := admit(t, list, sheep(t, `{"metadata":{"name":"dolly"},"spec":{}}`)); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range list {
		c := p.Bindings[0].Tally.Counts()
		if want := fmt.Sprintf("[spec.n is set by p%d too]", 1-i); fmt.Sprint(c.Conflicts) != want || c.Changed != 3 {
			t.Errorf("%s: got %+v, want %s", p.Name, c, want)
		}
	}
}

// conditionEngine counts evaluations of what is always true.
type conditionEngine struct{ n atomic.Int64 }

func (*conditionEngine) Name() string { return "always" }
func (e *conditionEngine) Compile(*policies.Source) (policies.Program, error) {
	return conditionProgram{e}, nil
}

type conditionProgram struct{ of *conditionEngine }

func (p conditionProgram) Begin() policies.Run             { return conditionRun(p) }
func (conditionProgram) Mentions(_ int, input string) bool { return input == "object" }

type conditionRun conditionProgram

func (conditionRun) Bind(int, document.Value) {}
func (conditionRun) Cost() policies.Cost      { return policies.Cost{} }
func (r conditionRun) Eval(context.Context, int, *policies.Locals) (policies.Verdict, error) {
	r.of.n.Add(1)
	return policies.Verdict{Bool: true}, nil
}

// Match conditions are evaluated once for a request, by however many bindings a policy judges it.
func TestConditionsAreSharedByBindings(t *testing.T) {
	engine := &conditionEngine{}
	conditions, err := policies.CompileConditions(engine, "spec.matchConditions", []policies.NamedText{{Name: "c", Expression: "true"}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMatch(rules("example.com", "sheep", "CREATE"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Policy{Kind: "Policy", Name: "p", Match: m, Judge: policies.When(conditions, everyTenth{})}
	for i := range 20 {
		p.Bindings = append(p.Bindings, &Binding{Name: fmt.Sprint(i), Deny: true})
	}
	x, err := NewAdmission(Config{Namespaces: &namespacesByName{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := rest.WithCatalog(t.Context(), served{index: NewIndex([]*Policy{p})})
	for i := range 3 {
		err := x.Validate(ctx, sheep(t, `{"metadata":{"name":"dolly"},"spec":{"n":10}}`))
		if status, ok := err.(apierrors.APIStatus); !ok || len(status.Status().Details.Causes) != 20 {
			t.Fatalf("got %v", err)
		}
		if n := engine.n.Load(); n != int64(i+1) {
			t.Errorf("%d evaluations for %d requests", n, i+1)
		}
	}
}
