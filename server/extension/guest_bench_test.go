package extension_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// policyCatalog is a Catalog of policies only.
type policyCatalog struct {
	rest.Catalog
	index *policy.Index
}

func (c policyCatalog) Policies() *policy.Index              { return c.index }
func (policyCatalog) Resource(string, string) *rest.Resource { return nil }

// BenchmarkGuestPolicy is what policies that are modules add to a creation of 2 KiB, of which each reads five fields. The
// object has been read already.
func BenchmarkGuestPolicy(b *testing.B) {
	g := hosttest.NewGuest("five", abi.OpAdmitValidate)
	var code hosttest.Code
	for _, path := range []string{"spec.replicas", "spec.paused", "spec.image", "spec.title", "metadata.labels.app"} {
		at, n := g.Text(path)
		code = code.I32Const(int32(abi.SlotObject)).I32Const(at).I32Const(n).I32Const(1 << 15).I32Const(1000).Call(g.Query).Drop()
	}
	rt, err := host.NewRuntime(host.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rt.Close(context.WithoutCancel(b.Context())) })
	module, err := rt.Load(b.Context(), g.Finish(code), host.ModuleConfig{Name: "five"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = module.Close(context.WithoutCancel(b.Context())) })
	object := parse(b, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"default","labels":{"app":"a"}},"spec":{"replicas":3,"paused":false,"image":"registry.example/a","title":"t","text":"`+strings.Repeat("x", 1800)+`"}}`)
	metrics, err := policy.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	x, err := policy.NewAdmission(policy.Config{Namespaces: struct{ rest.Getter }{}, Metrics: metrics, Authorizer: func(*admission.Attributes) any { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var list []*policy.Policy
			for i := range n {
				p, err := policy.FromSpec("Policy", fmt.Sprint("p", i), policy.Spec{MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{gvr.Group}, APIVersions: []string{gvr.Version}, Resources: []string{gvr.Resource}}}}}}})
				if err != nil {
					b.Fatal(err)
				}
				p.Judge = policies.When(nil, extension.NewGuestJudge(module))
				binding := policy.FromBinding("b", policy.BindingSpec{Actions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}})
				binding.Tally = policy.NewTally(policy.Counts{})
				p.Bindings = []*policy.Binding{binding}
				list = append(list, p)
			}
			ctx := rest.WithCatalog(b.Context(), policyCatalog{index: policy.NewIndex(list)})
			ctx = apirequest.WithReceivedTimestamp(request.WithUser(ctx, &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters", "system:authenticated"}}), time.Unix(1700000000, 12345))
			allowance := extension.Allowance{Fuel: 100_000_000, Timeout: time.Minute}
			b.ReportAllocs()
			for b.Loop() {
				err := x.Validate(allowance.Begin(ctx), &admission.Attributes{Operation: admission.Create, Resource: gvr, Kind: gvr.GroupVersion().WithKind("Widget"),
					Namespace: "default", Name: "w", Object: object, User: &user.DefaultInfo{Name: "admin"}})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
