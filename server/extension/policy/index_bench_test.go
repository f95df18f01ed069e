package policy

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/rest"
)

// storedNamespaces are namespaces with no labels but their names.
type storedNamespaces struct{}

func (storedNamespaces) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	return document.Parse([]byte(fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"kubernetes.io/metadata.name":%[1]q}}}`, name)))
}

// admits finds nothing wrong.
type admits struct{}

func (admits) Judge(context.Context, *policies.Review) (*policies.Decision, error) {
	return &policies.Decision{}, nil
}

// elsewhere are n policies on widgets, whose bindings are narrowed so that none concerns what is created in default.
func elsewhere(tb testing.TB, n int, narrow func(i int, m *admissionregistrationv1.MatchResources)) []*Policy {
	tb.Helper()
	var list []*Policy
	for i := range n {
		p, err := NewMatch(rulesOf("example.com", "widgets"))
		if err != nil {
			tb.Fatal(err)
		}
		resources := &admissionregistrationv1.MatchResources{}
		narrow(i, resources)
		b, err := NewMatch(resources)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, &Policy{Kind: validatingKind, Name: fmt.Sprintf("p%04d", i), Match: p, Judge: admits{}, Bindings: []*Binding{{Name: "b", Match: b, Deny: true}}})
	}
	return list
}

// narrowings are the ways of elsewhere.
var narrowings = []struct {
	name   string
	narrow func(i int, m *admissionregistrationv1.MatchResources)
}{
	{"namespace", func(i int, m *admissionregistrationv1.MatchResources) {
		m.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": fmt.Sprint("team-", i)}}
	}},
	{"label of a namespace", func(_ int, m *admissionregistrationv1.MatchResources) {
		m.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	}},
	{"label", func(_ int, m *admissionregistrationv1.MatchResources) {
		m.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	}},
	{"labels", func(i int, m *admissionregistrationv1.MatchResources) {
		m.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(i)}}
	}},
}

// BenchmarkElsewhere is what policies cost that are on the resource of a request, and are bound to something else.
func BenchmarkElsewhere(b *testing.B) {
	for _, how := range narrowings {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", how.name, n), func(b *testing.B) {
				_, ctx, create := matching(b, 0)
				x, err := NewAdmission(Config{Namespaces: storedNamespaces{}})
				if err != nil {
					b.Fatal(err)
				}
				ctx = rest.WithCatalog(ctx, policyCatalog{index: NewIndex(elsewhere(b, n, how.narrow))})
				a := create()
				b.ReportAllocs()
				for b.Loop() {
					if err := x.Validate(ctx, a); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
