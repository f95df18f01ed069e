package strategy_test

import (
	"context"
	"fmt"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/modules/deployment/strategy"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/weirtest"
)

// native is the strategy without WebAssembly.
type native struct{ hooks weir.Hooks }

func (n native) Run(_ context.Context, hook string, obj, old *document.Document) (policytest.Outcome, error) {
	var out policytest.Outcome
	op, ok := abi.ParseOp(hook)
	if !ok {
		return out, fmt.Errorf("hook %q does not exist", hook)
	}
	implemented := false
	for _, have := range n.hooks.Ops() {
		implemented = implemented || have == op
	}
	if !implemented {
		return out, nil
	}
	call := weirtest.Call{Op: op, Object: string(obj.Bytes())}
	if old != nil {
		call.OldObject = string(old.Bytes())
	}
	res, err := weirtest.Run(n.hooks, call)
	if err != nil {
		return out, err
	}
	out.Warnings = res.Warnings
	for _, e := range res.Errors {
		fe := policytest.FieldError{Type: e.Type, Field: e.Field, Detail: &e.Detail}
		if e.Value != nil {
			if fe.Value, err = document.Parse(e.Value); err != nil {
				return out, err
			}
		}
		out.Errors = append(out.Errors, fe)
	}
	if res.Object != "" {
		out.Object, err = document.Parse([]byte(res.Object))
	}
	return out, err
}

func TestCases(t *testing.T) {
	suites, err := policytest.Load(library.FS, "deployment/cases")
	if err != nil {
		t.Fatal(err)
	}
	policytest.Run(t, suites, native{weir.For[strategy.Deployment](strategy.Strategy{})})
}

// What the shared cases leave to the generic strategy.
func TestPrepare(t *testing.T) {
	tests := []struct {
		name        string
		op          abi.Op
		object, old string
		want        string
	}{
		{
			name:   "a new object has no status and generation 1",
			op:     abi.OpPrepareForCreate,
			object: `{"metadata":{"name":"a","generation":7},"spec":{"x":1},"status":{"replicas":3}}`,
			want:   `{"metadata":{"generation":1,"name":"a"},"spec":{"x":1}}`,
		},
		{
			name:   "one that is as it should be does not change",
			op:     abi.OpPrepareForCreate,
			object: `{"metadata":{"generation":1},"spec":{}}`,
		},
		{
			name:   "metadata is made",
			op:     abi.OpPrepareForCreate,
			object: `{"spec":{}}`,
			want:   `{"metadata":{"generation":1},"spec":{}}`,
		},
		{
			name:   "an update keeps status and generation",
			op:     abi.OpPrepareForUpdate,
			object: `{"metadata":{"generation":9,"labels":{"a":"b"}},"spec":{"replicas":1},"status":{"replicas":0}}`,
			old:    `{"metadata":{"generation":4},"spec":{"replicas":1},"status":{"replicas":3}}`,
			want:   `{"metadata":{"generation":4,"labels":{"a":"b"}},"spec":{"replicas":1},"status":{"replicas":3}}`,
		},
		{
			name:   "a change of the spec counts",
			op:     abi.OpPrepareForUpdate,
			object: `{"metadata":{"generation":4},"spec":{"replicas":2}}`,
			old:    `{"metadata":{"generation":4},"spec":{"replicas":1},"status":{"replicas":3}}`,
			want:   `{"metadata":{"generation":5},"spec":{"replicas":2},"status":{"replicas":3}}`,
		},
		{
			name:   "a status cannot be added",
			op:     abi.OpPrepareForUpdate,
			object: `{"metadata":{"generation":4},"spec":{},"status":{"replicas":3}}`,
			old:    `{"metadata":{"generation":4},"spec":{}}`,
			want:   `{"metadata":{"generation":4},"spec":{}}`,
		},
	}
	hooks := weir.For[strategy.Deployment](strategy.Strategy{})
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			res, err := weirtest.Run(hooks, weirtest.Call{Op: tc.op, Object: tc.object, OldObject: tc.old})
			if err != nil {
				t.Fatal(err)
			}
			if res.Object != tc.want {
				t.Errorf("got  %s\nwant %s", res.Object, tc.want)
			}
		})
	}
}

func TestWrongTypes(t *testing.T) {
	hooks := weir.For[strategy.Deployment](strategy.Strategy{})
	tests := []struct {
		name, object string
		op           abi.Op
		want         abi.FieldError
	}{
		{
			name: "replicas is a string", op: abi.OpValidateCreate,
			object: `{"spec":{"replicas":"3"}}`,
			want: abi.FieldError{Type: abi.ErrorTypeTypeInvalid, Field: "spec.replicas", Value: abi.RawJSON(`"3"`),
				Detail: "a string where an integer is expected"},
		},
		{
			name: "a container is a number", op: abi.OpDefault,
			object: `{"spec":{"template":{"spec":{"containers":[{"name":"a"},7]}}}}`,
			want: abi.FieldError{Type: abi.ErrorTypeTypeInvalid, Field: "spec.template.spec.containers[1]", Value: abi.RawJSON(`7`),
				Detail: "a number where an object is expected"},
		},
		{
			name: "a part of the object", op: abi.OpWarningsOnCreate,
			object: `{"spec":{"template":{"spec":{"volumes":{}}}}}`,
			want: abi.FieldError{Type: abi.ErrorTypeTypeInvalid, Field: "spec.template.spec.volumes", Value: abi.RawJSON(`{}`),
				Detail: "an object where an array is expected"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			res, err := weirtest.Run(hooks, weirtest.Call{Op: tc.op, Object: tc.object})
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(res.Errors) != fmt.Sprint([]abi.FieldError{tc.want}) {
				t.Errorf("got %s, want %s", res.Errors, []abi.FieldError{tc.want})
			}
		})
	}
}
