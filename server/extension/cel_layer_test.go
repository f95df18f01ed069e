package extension_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/rest"
)

func parse(t testing.TB, s string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newLayer(t testing.TB, rules v1alpha1.CELLayer) *extension.CELLayer {
	t.Helper()
	l, err := extension.NewCELLayer(newEngine(t, cel.Config{}), "test", "spec.layers[1].cel", &rules)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCELDefaults(t *testing.T) {
	const container = `{"spec":{"list":[{"name":"a"},{"name":"b","x":1},"text"]}}`
	tests := []struct {
		name     string
		rules    []v1alpha1.DefaultRule
		in, want string
	}{
		{"absent", []v1alpha1.DefaultRule{{Path: "spec.x", Value: "1"}}, `{"spec":{}}`, `{"spec":{"x":1}}`},
		{"present", []v1alpha1.DefaultRule{{Path: "spec.x", Value: "1"}}, `{"spec":{"x":2}}`, `{"spec":{"x":2}}`},
		{"null counts as absent", []v1alpha1.DefaultRule{{Path: "spec.x", Value: "1"}}, `{"spec":{"x":null}}`, `{"spec":{"x":1}}`},
		{"the parent is not made", []v1alpha1.DefaultRule{{Path: "spec.x.y", Value: "1"}}, `{"spec":{}}`, `{"spec":{}}`},
		{"the parent is of another kind", []v1alpha1.DefaultRule{{Path: "spec.x.y", Value: "1"}}, `{"spec":{"x":[1]}}`, `{"spec":{"x":[1]}}`},
		{"every element", []v1alpha1.DefaultRule{{Path: "spec.list[*].x", Value: "item.name + string(index)"}}, container,
			`{"spec":{"list":[{"name":"a","x":"a0"},{"name":"b","x":1},"text"]}}`},
		{"when", []v1alpha1.DefaultRule{{Path: "spec.list[*].y", When: "has(item.x)", Value: "true"}}, container,
			`{"spec":{"list":[{"name":"a"},{"name":"b","x":1,"y":true},"text"]}}`},
		{"one builds on another", []v1alpha1.DefaultRule{
			{Path: "spec.a", Value: "{'b': 1}"}, {Path: "spec.a.c", Value: "2"}, {Path: "spec.sum", Value: "object.spec.a.b + object.spec.a.c"},
		}, `{"spec":{}}`, `{"spec":{"a":{"b":1,"c":2},"sum":3}}`},
		{"quoted", []v1alpha1.DefaultRule{{Path: "metadata.labels['app.kubernetes.io/name']", Value: "'x'"}},
			`{"metadata":{"labels":{}}}`, `{"metadata":{"labels":{"app.kubernetes.io/name":"x"}}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := newLayer(t, v1alpha1.CELLayer{Defaults: tc.rules})
			in := parse(t, tc.in)
			got, err := l.Default(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Bytes()) != string(parse(t, tc.want).Bytes()) {
				t.Errorf("got %s, want %s", got.Bytes(), tc.want)
			}
			if tc.in == tc.want && got != in {
				t.Error("nothing changed, but the object is another")
			}
			again, err := l.Default(t.Context(), got)
			if err != nil || again != got {
				t.Errorf("not idempotent: %v", err)
			}
		})
	}
}

func TestCELMutations(t *testing.T) {
	in := `{"apiVersion":"v1","kind":"T","metadata":{"labels":{"a":"1"},"name":"n"},"spec":{"l":[1,2],"n":9007199254740993},"status":{"x":1}}`
	tests := []struct {
		name     string
		mutation v1alpha1.Mutation
		want     string // "" for unchanged
	}{
		{"merge", v1alpha1.Mutation{ApplyConfiguration: "Object{metadata: Object.metadata{labels: {'b': '2'}}, spec: Object.spec{l: [3]}}"},
			`{"apiVersion":"v1","kind":"T","metadata":{"labels":{"a":"1","b":"2"},"name":"n"},"spec":{"l":[3],"n":9007199254740993},"status":{"x":1}}`},
		{"patch", v1alpha1.Mutation{JSONPatch: "[JSONPatch{op: 'remove', path: '/status'}, JSONPatch{op: 'add', path: '/spec/l/-', value: object.spec.n}]"},
			`{"apiVersion":"v1","kind":"T","metadata":{"labels":{"a":"1"},"name":"n"},"spec":{"l":[1,2,9007199254740993],"n":9007199254740993}}`},
		{"when is false", v1alpha1.Mutation{When: "has(object.spec.absent)", JSONPatch: "[JSONPatch{op: 'remove', path: '/status'}]"}, ""},
		{"a test fails", v1alpha1.Mutation{JSONPatch: "[JSONPatch{op: 'test', path: '/spec/n', value: 1}, JSONPatch{op: 'remove', path: '/status'}]"}, ""},
		{"no change", v1alpha1.Mutation{ApplyConfiguration: "Object{status: object.status}"}, ""},
		{"the old object", v1alpha1.Mutation{When: "oldObject != null", ApplyConfiguration: "Object{status: oldObject.status}"},
			`{"apiVersion":"v1","kind":"T","metadata":{"labels":{"a":"1"},"name":"n"},"spec":{"l":[1,2],"n":9007199254740993},"status":{"old":true,"x":1}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := newLayer(t, v1alpha1.CELLayer{PrepareForUpdate: []v1alpha1.Mutation{tc.mutation}})
			obj := parse(t, in)
			got, err := l.PrepareForUpdate(t.Context(), obj, parse(t, `{"status":{"old":true}}`))
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if got != obj {
					t.Errorf("want no change, got %s", got.Bytes())
				}
				return
			}
			if diff := cmp.Diff(tc.want, string(got.Bytes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCELMutationErrors(t *testing.T) {
	tests := []struct {
		name  string
		rules v1alpha1.CELLayer
		want  string
	}{
		{"rule", v1alpha1.CELLayer{PrepareForCreate: []v1alpha1.Mutation{{ApplyConfiguration: "Object{x: object.absent.y}"}}},
			`T.g "n" is invalid: <nil>: Invalid value: no such key: absent evaluating rule: Object{x: object.absent.y}`},
		{"kind", v1alpha1.CELLayer{PrepareForCreate: []v1alpha1.Mutation{{ApplyConfiguration: "Object{kind: 'Y'}"}}},
			`T.g "n" is invalid: <nil>: Invalid value: kind may not be changed evaluating rule: Object{kind: 'Y'}`},
		{"name", v1alpha1.CELLayer{PrepareForCreate: []v1alpha1.Mutation{{JSONPatch: "[JSONPatch{op: 'remove', path: '/metadata'}]"}}},
			`T.g "n" is invalid: <nil>: Invalid value: metadata.name may not be changed evaluating rule: [JSONPatch{op: 'remove', path: '/metadata'}]`},
		{"patch of the whole", v1alpha1.CELLayer{PrepareForCreate: []v1alpha1.Mutation{{JSONPatch: "[JSONPatch{op: 'add', path: '', value: [1]}]"}}},
			`T.g "n" is invalid: <nil>: Invalid value: json patch: the result is not an object evaluating rule: [JSONPatch{op: 'add', path: '', value: [1]}]`},
		{"patch", v1alpha1.CELLayer{PrepareForCreate: []v1alpha1.Mutation{{JSONPatch: "[JSONPatch{op: 'remove', path: '/absent'}]"}}},
			`T.g "n" is invalid: <nil>: Invalid value: json patch: operation 0: /absent does not exist evaluating rule: [JSONPatch{op: 'remove', path: '/absent'}]`},
		{"default", v1alpha1.CELLayer{Defaults: []v1alpha1.DefaultRule{{Path: "metadata.x", Value: "item.absent"}}},
			`T.g "n" is invalid: metadata.x: Invalid value: no such key: absent evaluating rule: item.absent`},
		{"merged default", v1alpha1.CELLayer{Defaults: []v1alpha1.DefaultRule{{Path: "metadata.x", Value: "'text'", Merge: true}}},
			`T.g "n" is invalid: metadata.x: Invalid value: value to merge is not an object evaluating rule: 'text'`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := newLayer(t, tc.rules)
			obj := parse(t, `{"apiVersion":"g/v1","kind":"T","metadata":{"name":"n"}}`)
			_, err := l.PrepareForCreate(t.Context(), obj)
			if err == nil {
				_, err = l.Default(t.Context(), obj)
			}
			if !apierrors.IsInvalid(err) || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestCELValidations(t *testing.T) {
	const in = `{"metadata":{"name":"n"},"spec":{"replicas":-1,"list":[{"name":"a"},{"name":"b"},{"name":"a"}],"big":[0,1,2,3,4,5,6,7,8,9]}}`
	tests := []struct {
		name    string
		rule    v1alpha1.Validation
		old     string
		want    []string
		wantErr bool
	}{
		{name: "true", rule: v1alpha1.Validation{Expression: "object.spec.replicas < 0"}},
		{name: "message", rule: v1alpha1.Validation{Expression: "object.spec.replicas >= 0", FieldPath: "spec.replicas", Message: "too few"},
			want: []string{`spec.replicas: Invalid value: -1: too few`}},
		{name: "no path", rule: v1alpha1.Validation{Expression: "object.spec.replicas >= 0"},
			want: []string{`<nil>: Invalid value: failed expression: object.spec.replicas >= 0`}},
		{name: "message expression", rule: v1alpha1.Validation{Expression: "false", MessageExpression: "'is ' + string(object.spec.replicas)", FieldPath: "spec.replicas", Reason: "FieldValueForbidden"},
			want: []string{`spec.replicas: Forbidden: is -1`}},
		{name: "message expression that errs", rule: v1alpha1.Validation{Expression: "false", Message: "plain", MessageExpression: "string(object.absent)", FieldPath: "spec"},
			want: []string{`spec: Invalid value: ` + string(parse(t, in).Get("spec").Raw()) + `: plain`}},
		{name: "message expression of two lines", rule: v1alpha1.Validation{Expression: "false", Message: "plain", MessageExpression: `'a\nb'`, FieldPath: "spec.replicas"},
			want: []string{`spec.replicas: Invalid value: -1: plain`}},
		{name: "required needs no message", rule: v1alpha1.Validation{Expression: "has(object.spec.x)", FieldPath: "spec.x", Reason: "FieldValueRequired"},
			want: []string{`spec.x: Required value`}},
		{name: "each item", rule: v1alpha1.Validation{ForEach: "spec.list[*]", Expression: "items.map(i, i.name).indexOf(item.name) == index", FieldPath: "name", Reason: "FieldValueDuplicate"},
			want: []string{`spec.list[2].name: Duplicate value: "a"`}},
		{name: "path of an item", rule: v1alpha1.Validation{ForEach: "spec.list[*]", Expression: "item.name != 'b'", MessageExpression: "'see ' + path", FieldPath: "name"},
			want: []string{`spec.list[1].name: Invalid value: "b": see spec.list[1]`}},
		{name: "a rule that errs", rule: v1alpha1.Validation{Expression: "object.spec.absent == 1", FieldPath: "spec.replicas"},
			want: []string{`spec.replicas: Invalid value: -1: no such key: absent evaluating rule: object.spec.absent == 1`}},
		{name: "a rule that costs too much", rule: v1alpha1.Validation{FieldPath: "spec.replicas",
			Expression: "object.spec.big.all(a, object.spec.big.all(b, object.spec.big.all(c, object.spec.big.all(d, object.spec.big.all(e, object.spec.big.all(f, true))))))"},
			want: []string{`spec.replicas: Invalid value: -1: cost limit exceeded: expression used 1000001 of 1000000 evaluating rule: ` +
				"object.spec.big.all(a, object.spec.big.all(b, object.spec.big.all(c, object.spec.big.all(d, object.spec.big.all(e, object.spec.big.all(f, true))))))"}},
		{name: "a transition is not checked on create", rule: v1alpha1.Validation{Expression: "object.spec == oldObject.spec"}},
		{name: "a transition through a variable is not either", rule: v1alpha1.Validation{Expression: "variables.same"}},
		{name: "a transition on update", old: `{"spec":{}}`, rule: v1alpha1.Validation{Expression: "variables.same", FieldPath: "spec.replicas", Message: "field is immutable"},
			want: []string{`spec.replicas: Invalid value: -1: field is immutable`}},
		{name: "on create too", rule: v1alpha1.Validation{Expression: "oldObject != null", OnCreate: true, Message: "no", FieldPath: "metadata.name"},
			want: []string{`metadata.name: Invalid value: "n": no`}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := newLayer(t, v1alpha1.CELLayer{
				Variables:   []v1alpha1.Variable{{Name: "same", Expression: "object.spec == oldObject.spec"}},
				Validations: []v1alpha1.Validation{tc.rule},
			})
			var (
				errs field.ErrorList
				err  error
			)
			if tc.old != "" {
				errs, err = l.ValidateUpdate(t.Context(), parse(t, in), parse(t, tc.old))
			} else {
				errs, err = l.Validate(t.Context(), parse(t, in))
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range errs {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCELHooks(t *testing.T) {
	l := newLayer(t, v1alpha1.CELLayer{Validations: []v1alpha1.Validation{{Expression: "object == oldObject"}}})
	if got, want := l.Implements(), rest.HookSet(rest.HookValidateUpdate); got != want {
		t.Errorf("got %b, want %b", got, want)
	}
	if l.Name() != "cel[test]" {
		t.Error(l.Name())
	}
}

func TestCELContext(t *testing.T) {
	l := newLayer(t, v1alpha1.CELLayer{Validations: []v1alpha1.Validation{{Expression: "object.x == 1"}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Validate(ctx, parse(t, `{}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCELWarnings(t *testing.T) {
	l := newLayer(t, v1alpha1.CELLayer{Warnings: []v1alpha1.Warning{
		{Expression: "object.x == 1", Message: "x is one"},
		{Expression: "object.x == 2", Message: "x is two"},
		{ForEach: "l[*]", Expression: "item > 1", MessageExpression: "path + ' is ' + string(item)"},
		{Expression: "object.absent", Message: "m"},
	}[:3]})
	got, err := l.WarningsOnCreate(t.Context(), parse(t, `{"x":1,"l":[1,2,3]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"x is one", "l[1] is 2", "l[2] is 3"}, got); diff != "" {
		t.Error(diff)
	}
	got, err = l.WarningsOnUpdate(t.Context(), parse(t, `{}`), parse(t, `{}`))
	if err != nil || len(got) != 2 || !strings.HasPrefix(got[0], "cel[test]: no such key: x evaluating warning: object.x == 1") {
		t.Errorf("got %q %v", got, err)
	}
}

func TestCompileStrategyIssues(t *testing.T) {
	spec := &v1alpha1.StrategySpec{Group: "g", Layers: []v1alpha1.StrategyLayer{
		{Name: "a", CEL: &v1alpha1.CELLayer{}},
		{Name: "a", CEL: &v1alpha1.CELLayer{
			Variables:        []v1alpha1.Variable{{Name: "v", Expression: "object.spec +"}},
			Defaults:         []v1alpha1.DefaultRule{{Path: "spec.list[*]", Value: "1"}, {Path: "spec..x", Value: "1"}, {Path: "status", Value: "{}"}},
			PrepareForCreate: []v1alpha1.Mutation{{}},
			Validations: []v1alpha1.Validation{
				{Expression: "object.spec.replicas"},
				{Expression: "true", Reason: "Because", FieldPath: "spec[*]", ForEach: "spec["},
				{Expression: "objekt.spec.replicas >= 0 &&\n  object.x == y"},
			},
			Warnings: []v1alpha1.Warning{{Expression: "true"}},
		}},
		{CEL: &v1alpha1.CELLayer{}, Module: &v1alpha1.ModuleLayer{Name: "m"}},
	}}
	_, err := extension.CompileStrategy(newEngine(t, cel.Config{}), spec, nil)
	var issues policies.Issues
	if !errors.As(err, &issues) {
		t.Fatalf("got %v", err)
	}
	want := strings.TrimPrefix(`
spec.resource: a resource is required
spec.layers[1].name: "a" is used by another layer
spec.layers[1].cel.defaults[0].path: path "spec.list[*]" must end with the name of a field
spec.layers[1].cel.defaults[1].path: path "spec..x": offset 5: want a name
spec.layers[1].cel.defaults[2].path: "status" may not be defaulted
spec.layers[1].cel.prepareForCreate[0]: exactly one of applyConfiguration and jsonPatch is required
spec.layers[1].cel.validations[1].reason: "Because" is not supported
spec.layers[1].cel.validations[1].forEach: path "spec[": offset 5: '[' is not closed
spec.layers[1].cel.validations[1].fieldPath: a field path cannot have [*]; forEach can
spec.layers[1].cel.warnings[0]: message or messageExpression is required
spec.layers[1].cel.variables[0].expression:1:14: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
 | object.spec +
 | .............^
spec.layers[1].cel.validations[0].expression:1:1: must evaluate to bool, not dyn; bool(…) converts it
 | object.spec.replicas
 | ^
spec.layers[1].cel.validations[2].expression:1:1: undeclared reference to 'objekt' (in container '')
 | objekt.spec.replicas >= 0 &&
 | ^
spec.layers[1].cel.validations[2].expression:2:15: undeclared reference to 'y' (in container '')
 |   object.x == y
 | ..............^
spec.layers[2].name: a name is required
spec.layers[2]: exactly one of cel and module is required`, "\n")
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}
