package policy

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/rest"
)

// unreadable is a selector that no server takes. An etcd that was restored, or that another version has written, may have it.
var unreadable = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}} // never written to

// TestUnreadableMatch: what cannot be read refuses what it is about, whoever was asked before it.
func TestUnreadableMatch(t *testing.T) {
	engine, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	broken := func(m *admissionregistrationv1.MatchResources) *admissionregistrationv1.MatchResources {
		m.ObjectSelector = unreadable
		return m
	}
	policy := func(m *admissionregistrationv1.MatchResources, bindings ...*Binding) *Policy {
		p, _ := FromValidating(policies.Engines{Conditions: engine, Rules: engine}, &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec:       admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: m, Validations: []admissionregistrationv1.Validation{{Expression: "true"}}}})
		p.Bindings = bindings
		return p
	}
	binding := func(m *admissionregistrationv1.MatchResources) *Binding {
		return FromBinding("b", BindingSpec{Actions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, Match: m})
	}
	here := func() *admissionregistrationv1.MatchResources { return rulesOf("example.com", "widgets") }
	elsewhere := func() *admissionregistrationv1.MatchResources { return rulesOf("example.com", "others") }
	tests := []struct {
		name   string
		list   []*Policy
		denies bool
	}{
		{"sound", []*Policy{policy(here(), binding(nil))}, false},
		{"no constraints", []*Policy{policy(nil, binding(nil))}, true},
		{"constraints", []*Policy{policy(broken(here()), binding(nil))}, true},
		{"constraints of others", []*Policy{policy(broken(elsewhere()), binding(nil))}, false},
		{"binding", []*Policy{policy(here(), binding(broken(here())))}, true},
		{"binding of others", []*Policy{policy(here(), binding(broken(elsewhere())))}, false},
		{"binding of others first", []*Policy{policy(here(), binding(broken(elsewhere())), binding(broken(here())))}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			x, _, create := matching(t, 0)
			ctx := rest.WithCatalog(context.Background(), policyCatalog{index: NewIndex(tc.list)})
			err := x.Validate(ctx, create())
			if denies := err != nil && strings.Contains(err.Error(), "failed to configure"); denies != tc.denies || !denies && err != nil {
				t.Errorf("%v, want a refusal: %t", err, tc.denies)
			}
		})
	}
}

// TestMatchesAsksSelectors: a policy with the rules of the one before it, of which the request is known to be, is asked for
// its own selectors.
func TestMatchesAsksSelectors(t *testing.T) {
	_, _, create := matching(t, 0)
	policy := func(change func(m *admissionregistrationv1.MatchResources)) *Policy {
		from := rulesOf("example.com", "widgets")
		change(from)
		m, err := NewMatch(from)
		if err != nil {
			t.Fatal(err)
		}
		p := &Policy{Match: m, Bindings: []*Binding{{Name: "b"}}}
		NewIndex([]*Policy{p})
		return p
	}
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}
	plain := policy(func(*admissionregistrationv1.MatchResources) {})
	byObject := policy(func(m *admissionregistrationv1.MatchResources) { m.ObjectSelector = labelled })
	byNamespace := policy(func(m *admissionregistrationv1.MatchResources) { m.NamespaceSelector = labelled })
	gone := errors.New("gone")
	e := &evaluation{ctx: t.Context(), attributes: create(), namespaces: oneNamespace{gone}}
	for range 2 {
		if as, ok, err := plain.matches(e); !ok || err != nil || as.kind != e.attributes.Kind {
			t.Errorf("no selectors: %v, %t, %v", as, ok, err)
		}
	}
	if _, ok, err := byObject.matches(e); ok || err != nil {
		t.Errorf("an object without the label: %t, %v", ok, err)
	}
	if _, ok, err := byNamespace.matches(e); ok || err == nil {
		t.Errorf("a namespace that cannot be read: %t, %v", ok, err)
	}
}
