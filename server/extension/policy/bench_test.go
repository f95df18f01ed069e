package policy

import (
	"fmt"
	"strings"
	"testing"

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

// BenchmarkValidate is what policies that all match add to a creation of 2 KiB. The object
// has been read already.
func BenchmarkValidate(b *testing.B) {
	rules, err := cel.New(cel.Config{})
	if err != nil {
		b.Fatal(err)
	}
	engines := policies.Engines{Conditions: rules, Rules: rules}
	object, err := document.Parse([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"default"},"spec":{"replicas":3,"text":"` + strings.Repeat("x", 1900) + `"}}`))
	if err != nil {
		b.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			x, err := NewAdmission(Config{Namespaces: struct{ rest.Getter }{}, Metrics: metrics, Authorizer: func(*admission.Attributes) any { return nil }})
			if err != nil {
				b.Fatal(err)
			}
			var list []*Policy
			for i := range n {
				p, err := FromValidating(engines, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)},
					Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
						MatchConstraints: rulesOf("example.com", "widgets"),
						Validations:      []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("object.spec.replicas <= 500 && object.metadata.name != 'deny-%d'", i)}}}})
				if err != nil {
					b.Fatal(err)
				}
				binding := FromBinding("b", BindingSpec{Actions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}})
				binding.Tally = NewTally(Counts{})
				p.Bindings = []*Binding{binding}
				list = append(list, p)
			}
			ctx := rest.WithCatalog(b.Context(), policyCatalog{index: NewIndex(list)})
			b.ReportAllocs()
			for b.Loop() {
				a := &admission.Attributes{Operation: admission.Create, Resource: gvr, Kind: gvr.GroupVersion().WithKind("Widget"), Namespace: "default", Name: "w",
					Object: object, User: &user.DefaultInfo{Name: "u"}}
				if err := x.Validate(ctx, a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func rulesOf(group, resource string) *admissionregistrationv1.MatchResources {
	m := rules(group, resource, admissionregistrationv1.Create)
	exact := admissionregistrationv1.Exact
	m.MatchPolicy, m.NamespaceSelector, m.ObjectSelector = &exact, &metav1.LabelSelector{}, &metav1.LabelSelector{}
	return m
}
