package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// fakeGuest answers each hook as it is told and notes the calls.
type fakeGuest struct {
	ops    abi.OpSet
	result *host.Result
	err    error
	calls  []*host.Call
}

func (*fakeGuest) Name() string                  { return "fake" }
func (g *fakeGuest) Handles(op abi.Op) bool      { return g.ops.Has(op) }
func (g *fakeGuest) Close(context.Context) error { return nil }

func (g *fakeGuest) Call(_ context.Context, call *host.Call) (*host.Result, error) {
	g.calls = append(g.calls, call)
	if g.err != nil {
		return nil, g.err
	}
	return g.result, nil
}

func allOps() (set abi.OpSet) {
	for _, op := range abi.Ops() {
		set = set.With(op)
	}
	return set
}

func TestModuleLayerOps(t *testing.T) {
	obj, old := parse(t, `{"a":1}`), parse(t, `{"a":0}`)
	hooks := map[string]func(ctx context.Context, l rest.Layer) error{
		"default":          func(ctx context.Context, l rest.Layer) error { _, err := l.Default(ctx, obj); return err },
		"prepareForCreate": func(ctx context.Context, l rest.Layer) error { _, err := l.PrepareForCreate(ctx, obj); return err },
		"validateCreate":   func(ctx context.Context, l rest.Layer) error { _, err := l.Validate(ctx, obj); return err },
		"warningsOnCreate": func(ctx context.Context, l rest.Layer) error { _, err := l.WarningsOnCreate(ctx, obj); return err },
		"prepareForUpdate": func(ctx context.Context, l rest.Layer) error { _, err := l.PrepareForUpdate(ctx, obj, old); return err },
		"validateUpdate":   func(ctx context.Context, l rest.Layer) error { _, err := l.ValidateUpdate(ctx, obj, old); return err },
		"warningsOnUpdate": func(ctx context.Context, l rest.Layer) error { _, err := l.WarningsOnUpdate(ctx, obj, old); return err },
		"validateDelete":   func(ctx context.Context, l rest.Layer) error { _, err := l.ValidateDelete(ctx, obj); return err },
		"canonicalize":     func(ctx context.Context, l rest.Layer) error { _, err := l.Canonicalize(ctx, obj); return err },
	}
	for name, call := range hooks {
		for _, subresource := range []string{"", "status"} {
			t.Run(name+"/"+subresource, func(t *testing.T) {
				g := &fakeGuest{ops: allOps(), result: &host.Result{}}
				if err := call(t.Context(), extension.NewModuleLayer(g, subresource)); err != nil {
					t.Fatal(err)
				}
				want := name
				switch {
				case subresource == "status" && name == "prepareForUpdate":
					want = "statusPrepare"
				case subresource == "status" && name == "validateUpdate":
					want = "statusValidate"
				}
				if got := g.calls[0].Op.String(); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				c := g.calls[0]
				if hasOld := name == "validateDelete" || c.Op == abi.OpPrepareForUpdate || c.Op == abi.OpValidateUpdate ||
					c.Op == abi.OpWarningsOnUpdate || c.Op == abi.OpStatusPrepare || c.Op == abi.OpStatusValidate; (c.OldObject != nil) != hasOld {
					t.Errorf("oldObject is %v", c.OldObject)
				}
				if (c.Object == nil) != (name == "validateDelete") {
					t.Errorf("object is %v", c.Object)
				}
				none := &fakeGuest{}
				if err := call(t.Context(), extension.NewModuleLayer(none, subresource)); err != nil || len(none.calls) > 0 {
					t.Errorf("a hook that is not implemented was called: %v", err)
				}
			})
		}
	}
	g := &fakeGuest{ops: abi.OpSet(0).With(abi.OpDefault).With(abi.OpStatusValidate)}
	if got := extension.NewModuleLayer(g, "status").Implements(); got != rest.HookSet(rest.HookDefault|rest.HookValidateUpdate) {
		t.Errorf("got %b", got)
	}
}

func TestModuleLayerMeta(t *testing.T) {
	g := &fakeGuest{ops: allOps(), result: &host.Result{}}
	l := extension.NewModuleLayer(g, "")
	budget := host.NewBudget(1000, time.Time{})
	ctx := extension.WithBudget(t.Context(), budget)
	ctx = apirequest.WithReceivedTimestamp(ctx, time.Unix(1700000000, 5))
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "ann", Groups: []string{"dev"}})
	ctx = request.WithInfo(ctx, &request.Info{IsResourceRequest: true, Verb: "create", Resource: "things", Namespace: "ns"})
	obj := parse(t, `{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"n"}}`)
	for range 2 {
		if _, err := l.Validate(ctx, obj); err != nil {
			t.Fatal(err)
		}
	}
	if g.calls[0].Meta != g.calls[1].Meta {
		t.Error("the request was encoded twice")
	}
	if g.calls[0].Budget != budget {
		t.Error("the budget is not that of the context")
	}
	var got abi.Meta
	if err := json.Unmarshal(g.calls[0].Meta.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	got.Seed = ""
	want := abi.Meta{
		Operation: "CREATE", Time: "2023-11-14T22:13:20.000000005Z", Group: "g", Version: "v1", Kind: "Thing",
		Resource: "things", Namespace: "ns", Name: "n", User: abi.User{Username: "ann", Groups: []string{"dev"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := l.ValidateUpdate(ctx, obj, obj); err != nil {
		t.Fatal(err)
	}
	if op := g.calls[2].Meta.Get("operation").String(); op != "UPDATE" {
		t.Error(op)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := l.ValidateDelete(ctx, parse(t, `{"metadata":{"name":"`+name+`"}}`)); err != nil {
			t.Fatal(err)
		}
		if got := g.calls[len(g.calls)-1].Meta.Get("name").String(); got != name {
			t.Errorf("got the name %q, want %q", got, name)
		}
	}
}

func TestModuleLayerResults(t *testing.T) {
	obj := parse(t, `{"apiVersion":"g/v1","kind":"T","metadata":{"name":"n"}}`)
	t.Run("field errors", func(t *testing.T) {
		l := extension.NewModuleLayer(&fakeGuest{ops: allOps(), result: &host.Result{Errors: []abi.FieldError{
			{Type: abi.ErrorTypeInvalid, Field: "spec.x", Value: abi.RawJSON(`-1`), Detail: "d"},
			{Type: abi.ErrorTypeRequired, Field: "spec.y"},
			{Type: abi.ErrorTypeInvalid, Field: "spec.z", Detail: "d"},
		}}}, "")
		errs, err := l.Validate(t.Context(), obj)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := errs.ToAggregate().Error(), `[spec.x: Invalid value: -1: d, spec.y: Required value, spec.z: Invalid value: d]`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := l.Default(t.Context(), obj); !apierrors.IsInvalid(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("denial", func(t *testing.T) {
		l := extension.NewModuleLayer(&fakeGuest{ops: allOps(), result: &host.Result{Denied: &abi.Denial{Message: "no"}}}, "")
		if _, err := l.Validate(t.Context(), obj); !apierrors.IsForbidden(err) || err.Error() != "no" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("object", func(t *testing.T) {
		next := parse(t, `{"apiVersion":"g/v1","kind":"T","metadata":{"name":"n"},"x":1}`)
		l := extension.NewModuleLayer(&fakeGuest{ops: allOps(), result: &host.Result{Object: next}}, "")
		if got, err := l.Default(t.Context(), obj); got != next || err != nil {
			t.Errorf("got %v %v", got, err)
		}
		same := parse(t, string(next.Bytes()))
		if got, err := l.Default(t.Context(), same); got != same || err != nil {
			t.Errorf("an equal object must be the one that was given: %v", err)
		}
	})
	for field, other := range map[string]string{
		"apiVersion":         `{"apiVersion":"g/v2","kind":"T","metadata":{"name":"n"}}`,
		"kind":               `{"apiVersion":"g/v1","kind":"U","metadata":{"name":"n"}}`,
		"metadata.name":      `{"apiVersion":"g/v1","kind":"T","metadata":{"name":"m"}}`,
		"metadata.namespace": `{"apiVersion":"g/v1","kind":"T","metadata":{"name":"n","namespace":"kube-system"}}`,
		"metadata.uid":       `{"apiVersion":"g/v1","kind":"T","metadata":{"name":"n","uid":"1"}}`,
	} {
		t.Run("another "+field, func(t *testing.T) {
			l := extension.NewModuleLayer(&fakeGuest{ops: allOps(), result: &host.Result{Object: parse(t, other)}}, "")
			_, err := l.PrepareForCreate(t.Context(), obj)
			if class, _ := host.ClassOf(err); class != host.ClassBadOutput || err.Error() != "module[fake] hook[prepareForCreate]: bad output: "+field+" may not be changed" {
				t.Errorf("got %v", err)
			}
		})
	}
	tests := []struct {
		name string
		err  *host.Error
		code int32
	}{
		{"fuel", &host.Error{Module: "fake", Op: abi.OpValidateCreate, Class: host.ClassFuel, Message: "fuel exhausted after 5 units"}, 500},
		{"deadline", &host.Error{Module: "fake", Op: abi.OpValidateCreate, Class: host.ClassDeadline, Message: "deadline exceeded", Err: context.DeadlineExceeded}, 504},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			generic, err := rest.NewGeneric(rest.GenericConfig{
				Resource: schema.GroupResource{Group: "g", Resource: "things"},
				Kind:     schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"},
				Layers:   []rest.Layer{extension.NewModuleLayer(&fakeGuest{ops: allOps(), err: tc.err}, "")},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = generic.Validate(t.Context(), obj)
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != tc.code {
				t.Fatalf("got %v", err)
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("%v does not wrap the host's error", err)
			}
		})
	}
}

func TestCompileStrategyModules(t *testing.T) {
	spec := &v1alpha1.StrategySpec{Resource: "things", Layers: []v1alpha1.StrategyLayer{
		{Name: "rules", CEL: &v1alpha1.CELLayer{Validations: []v1alpha1.Validation{{Expression: "true"}}}},
		{Name: "guest", Subresources: []string{"", "status"}, Module: &v1alpha1.ModuleLayer{Name: "m"}},
	}}
	var errAbsent = errors.New("no such module")
	_, err := extension.CompileStrategy(newEngine(t, cel.Config{}), spec, func(string, json.RawMessage) (extension.Guest, error) { return nil, errAbsent })
	if !errors.Is(err, errAbsent) || err.Error() != "spec.layers[1].module: no such module" {
		t.Errorf("got %v", err)
	}
	compiled, err := extension.CompileStrategy(newEngine(t, cel.Config{}), spec, func(name string, _ json.RawMessage) (extension.Guest, error) {
		return &fakeGuest{ops: allOps()}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for subresource, want := range map[string][]string{"": {"cel[rules]", "module[fake]"}, "status": {"module[fake]"}, "scale": nil} {
		var got []string
		for _, l := range compiled.Layers(subresource) {
			got = append(got, l.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", subresource, diff)
		}
	}
}
