package cel

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// pod is an object of about 2 KiB.
func pod(t testing.TB) *document.Document {
	var env []string
	for i := range 22 {
		env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"some value with text %d"}`, i, i))
	}
	return mustDoc(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","labels":{"app":"web","team":"one","tier":"front"},`+
		`"annotations":{"a.example.com/x":"1","b.example.com/y":"2"}},"spec":{"restartPolicy":"Always","hostNetwork":false,"containers":[`+
		`{"name":"web","image":"registry.example.com/web:1.2.3","securityContext":{"privileged":false,"runAsNonRoot":true},"resources":{"limits":{"cpu":"1","memory":"100Mi"}},"env":[`+strings.Join(env, ",")+`]},`+
		`{"name":"side","image":"registry.example.com/side:4.5","securityContext":{"privileged":false},"resources":{"limits":{"cpu":"100m","memory":"50Mi"}}}]}}`)
}

var twentyRules = []string{
	"has(object.metadata.labels.team)",
	"object.metadata.labels.team != ''",
	"object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)",
	"object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
	"object.spec.containers.all(c, !c.image.endsWith(':latest'))",
	"object.spec.containers.all(c, has(c.resources) && has(c.resources.limits))",
	"object.spec.containers.all(c, quantity(c.resources.limits.memory).isLessThan(quantity('1Gi')))",
	"size(object.spec.containers) <= 5",
	"!has(object.spec.hostPID) || object.spec.hostPID == false",
	"object.spec.hostNetwork == false",
	"object.spec.restartPolicy in ['Always', 'OnFailure']",
	"object.metadata.name.matches('^[a-z][a-z0-9-]*$')",
	"object.metadata.namespace != 'kube-system'",
	"object.spec.containers.exists(c, c.name == 'web')",
	"object.metadata.labels.all(k, size(k) < 64)",
	"object.spec.containers[0].env.all(e, e.name.size() > 0)",
	"!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))",
	"object.metadata.annotations.exists(k, k.startsWith('a.'))",
	"object.kind == 'Pod' && object.apiVersion == 'v1'",
	"oldObject == null || object.spec.restartPolicy == oldObject.spec.restartPolicy",
}

func twenty(t testing.TB, c Config) policies.Program {
	src := &policies.Source{Inputs: []string{"object", "oldObject"}}
	for i, text := range twentyRules {
		src.Expressions = append(src.Expressions, policies.Expression{Path: fmt.Sprintf("rules[%d]", i), Text: text, Want: policies.Bool})
	}
	program, err := newEngine(t, c).Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func evalTwenty(ctx context.Context, program policies.Program, obj *document.Document) error {
	run := program.Begin()
	run.Bind(0, obj.Root())
	for i := range twentyRules {
		v, err := run.Eval(ctx, i, nil)
		if err != nil || !v.Bool {
			return fmt.Errorf("rule %d: %v %w", i, v.Bool, err)
		}
	}
	return nil
}

func BenchmarkTwentyRules(b *testing.B) {
	obj := pod(b)
	raw := obj.Bytes()
	for name, c := range map[string]Config{"metered": {AlwaysMeter: true}, "bounded": {}} {
		program := twenty(b, c)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if err := evalTwenty(b.Context(), program, obj); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parse", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := evalTwenty(b.Context(), program, document.FromCanonical(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		twenty(b, Config{})
	}
}

func TestProgramsAreConcurrent(t *testing.T) {
	program, obj := twenty(t, Config{}), pod(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := evalTwenty(t.Context(), program, obj); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestBoundHolds compares bounds with metered costs on the rules of the benchmark.
func TestBoundHolds(t *testing.T) {
	obj := pod(t)
	metered := twenty(t, Config{AlwaysMeter: true})
	unbounded := 0
	for i, x := range twenty(t, Config{}).(*program).expressions {
		run := metered.Begin()
		run.Bind(0, obj.Root())
		if _, err := run.Eval(t.Context(), i, nil); err != nil {
			t.Fatal(err)
		}
		bound, ok := x.bound(uint64(len(obj.Bytes())), policies.DefaultExpressionLimit)
		used := run.Cost().Used
		if ok && bound < used {
			t.Errorf("%s: bound %d is below the cost %d", x.text, bound, used)
		}
		if bound, ok := x.bound(uint64(obj.Root().Widest()), policies.DefaultExpressionLimit); !ok {
			unbounded++
		} else if bound < used {
			t.Errorf("%s: bound %d by what is widest is below the cost %d", x.text, bound, used)
		}
	}
	if unbounded > 0 {
		t.Errorf("%d rules have no bound", unbounded)
	}
}

func Example() {
	engine, err := New(Config{AlwaysMeter: true})
	if err != nil {
		panic(err)
	}
	program, err := engine.Compile(&policies.Source{
		Inputs:      []string{"object"},
		Expressions: []policies.Expression{{Path: "rule", Text: "object.spec.replicas <= 5", Want: policies.Bool}},
	})
	if err != nil {
		panic(err)
	}
	obj, err := document.Parse([]byte(`{"spec":{"replicas":7}}`))
	if err != nil {
		panic(err)
	}
	run := program.Begin()
	run.Bind(0, obj.Root())
	verdict, err := run.Eval(context.Background(), 0, nil)
	fmt.Println(verdict.Bool, err, run.Cost().Used)
	// Output: false <nil> 4
}
