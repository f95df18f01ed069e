package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// policyCatalog is a Catalog of policies only.
type policyCatalog struct {
	rest.Catalog
	index *Index
}

func (c policyCatalog) Policies() *Index                     { return c.index }
func (policyCatalog) Resource(string, string) *rest.Resource { return nil }

// matching returns an Admission, a context with n policies that all match, and the creation of 2 KiB that they match. The
// policies are those of the side by side with kube-apiserver.
func matching(tb testing.TB, n int) (*Admission, context.Context, func() *admission.Attributes) {
	tb.Helper()
	rules, err := cel.New(cel.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	engines := policies.Engines{Conditions: rules, Rules: rules}
	object, err := document.Parse([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"default"},"spec":{"replicas":3,"text":"` + strings.Repeat("x", 1900) + `"}}`))
	if err != nil {
		tb.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		tb.Fatal(err)
	}
	x, err := NewAdmission(Config{Namespaces: struct{ rest.Getter }{}, Metrics: metrics, Authorizer: func(*admission.Attributes) any { return nil }})
	if err != nil {
		tb.Fatal(err)
	}
	var list []*Policy
	for i := range n {
		p, err := FromValidating(engines, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: rulesOf("example.com", "widgets"),
				Validations:      []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("object.spec.replicas <= 500 && object.metadata.name != 'deny-%d'", i)}}}})
		if err != nil {
			tb.Fatal(err)
		}
		binding := FromBinding("b", BindingSpec{Actions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}})
		binding.Tally = NewTally(Counts{})
		p.Bindings = []*Binding{binding}
		list = append(list, p)
	}
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	create := func() *admission.Attributes {
		return &admission.Attributes{Operation: admission.Create, Resource: gvr, Kind: gvr.GroupVersion().WithKind("Widget"), Namespace: "default", Name: "w",
			Object: object, User: &user.DefaultInfo{Name: "u"}}
	}
	return x, rest.WithCatalog(tb.Context(), policyCatalog{index: NewIndex(list)}), create
}

// BenchmarkValidate is what policies that all match add to a creation of 2 KiB. The object
// has been read already.
func BenchmarkValidate(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, ctx, create := matching(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if err := x.Validate(ctx, create()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkValidateCold is BenchmarkValidate by a processor that has done something else since the last request, as that of a
// server has: what a policy touches has to be fetched.
func BenchmarkValidateCold(b *testing.B) {
	x, ctx, create := matching(b, 100)
	other := make([]byte, 8<<20)
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		for i := 0; i < len(other); i += 64 {
			other[i]++
		}
		a, started := create(), time.Now()
		if err := x.Validate(ctx, a); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(started))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-cold-ns/op")
}

// TestAllocationsOfAMatch: one more policy that matches allocates nothing, where one before it has read what it compares.
func TestAllocationsOfAMatch(t *testing.T) {
	per := func(n int) float64 {
		x, ctx, create := matching(t, n)
		return testing.AllocsPerRun(200, func() {
			if err := x.Validate(ctx, create()); err != nil {
				t.Fatal(err)
			}
		})
	}
	const policies, most = 100, 0.1
	one, many := per(1), per(1+policies)
	if more := (many - one) / policies; more >= most {
		t.Errorf("%.2f allocations a policy", more)
	}
}

func rulesOf(group, resource string) *admissionregistrationv1.MatchResources {
	m := rules(group, resource, admissionregistrationv1.Create)
	exact := admissionregistrationv1.Exact
	m.MatchPolicy, m.NamespaceSelector, m.ObjectSelector = &exact, &metav1.LabelSelector{}, &metav1.LabelSelector{}
	return m
}
