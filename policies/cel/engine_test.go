package cel

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

func newEngine(t testing.TB, c Config) *Engine {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustDoc(t testing.TB, s string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const object = `{"b":true,"f":1.5,"i":3,"l":[1,2,3],"max":9223372036854775807,"n":null,"o":{"a":{"b":"c"}},` +
	`"q":"100Mi","s":"text","words":["x","y","x"],"labels":{"app.kubernetes.io/name":"web"},"whole":2.0}`

func TestEval(t *testing.T) {
	tests := []struct {
		name string
		expr string
		want string
		cost uint64
	}{
		{"int", `object.i == 3`, `true`, 3},
		{"int is exact", `object.max == 9223372036854775807`, `true`, 3},
		{"int arithmetic is exact", `object.max - 1`, `9223372036854775806`, 3},
		{"a fraction is a double", `object.f > 1.25 && type(object.f) == double`, `true`, 7},
		{"2.0 is a double equal to 2", `object.whole == 2 && type(object.whole) == double`, `true`, 7},
		{"null", `object.n == null`, `true`, 3},
		{"an unbound input is null", `oldObject == null`, `true`, 2},
		{"has", `has(object.o.a) && !has(object.o.z) && !has(object.n.z)`, `true`, 8},
		{"has null", `has(object.n)`, `true`, 1},
		{"size", `size(object.l) + size(object.o) + size(object.s)`, `8`, 11},
		{"in list", `2 in object.l && !(9 in object.l)`, `true`, 7},
		{"in map", `'a' in object.o && !('z' in object.o)`, `true`, 7},
		{"index", `object.l[1] == 2`, `true`, 4},
		{"index of a map", `object.labels['app.kubernetes.io/name'] == 'web'`, `true`, 4},
		{"all", `object.l.all(x, x > 0)`, `true`, 18},
		{"exists", `object.words.exists(w, w == 'y')`, `true`, 18},
		{"filter and map", `object.l.filter(x, x > 1).map(x, x * 2)`, `[4,6]`, 64},
		{"keys of a map are sorted", `object.o.map(k, k) + object.labels.map(k, k)`, `["a","app.kubernetes.io/name"]`, 33},
		{"two variables", `object.words.all(i, w, i < 3 && w != '')`, `true`, 21},
		{"map is equal to a literal", `object.o == {'a': {'b': 'c'}} && {'a': {'b': 'c'}} == object.o`, `true`, 6},
		{"list is equal to a literal", `object.l == [1, 2, 3] && [1.0, 2.0, 3.0] == object.l`, `true`, 6},
		{"lists are not equal", `object.l != object.words`, `true`, 5},
		{"list and list", `object.l + object.words`, `[1,2,3,"x","y","x"]`, 5},
		{"optional", `object.?o.?z.orValue('d')`, `"d"`, 2},
		{"optional index", `object.l[?7].orValue(0)`, `0`, 2},
		{"strings", `object.s.startsWith('te') && object.s.upperAscii() == 'TEXT'`, `true`, 7},
		{"quantity", `quantity(object.q).isGreaterThan(quantity('1Mi'))`, `true`, 5},
		{"sets", `sets.contains(object.words, ['x'])`, `true`, 6},
		{"join", `object.words.join('-')`, `"x-y-x"`, 3},
		{"format", `'%s=%d'.format([object.s, object.i])`, `"text=3"`, 15},
		{"format of a map", `'%s'.format([object.o])`, `"{\"a\":{\"b\":\"c\"}}"`, 13},
		{"variables", `variables.sum + variables.twice`, `18`, 13},
		{"regex", `object.s.matches('^t.*t$')`, `true`, 4},
		{"bool of a dyn", `bool(object.b) && bool('true')`, `true`, 3},
		{"ternary", `object.b ? object.i : 0`, `3`, 3},
		{"cidr", `cidr('10.0.0.0/8').containsIP('10.1.2.3')`, `true`, 3},
		{"semver", `semver('1.2.3').isLessThan(semver('2.0.0'))`, `true`, 3},
		{"lists", `object.l.sum() == 6 && object.words.indexOf('y') == 1`, `true`, 9},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, c := range []Config{{AlwaysMeter: true}, {}} {
				program, err := newEngine(t, c).Compile(&policies.Source{
					Inputs: []string{"object", "oldObject"},
					Variables: []policies.Variable{
						{Name: "sum", Expression: policies.Expression{Path: "sum", Text: "object.l.sum()"}},
						{Name: "twice", Expression: policies.Expression{Path: "twice", Text: "variables.sum * 2"}},
						{Name: "bad", Expression: policies.Expression{Path: "bad", Text: "object.absent"}},
					},
					Expressions: []policies.Expression{{Path: "e", Text: tc.expr}},
				})
				if err != nil {
					t.Fatal(err)
				}
				run := program.Begin()
				run.Bind(0, mustDoc(t, object).Root())
				got, err := run.Eval(t.Context(), 0, nil)
				if err != nil {
					t.Fatal(err)
				}
				if s := string(got.Value.Bytes()); s != tc.want {
					t.Errorf("%+v: got %s, want %s", c, s, tc.want)
				}
				if c.AlwaysMeter && run.Cost().Used != tc.cost {
					t.Errorf("cost %d, want %d", run.Cost().Used, tc.cost)
				}
				if !c.AlwaysMeter && run.Cost().Used == 0 && run.Cost().Proven < tc.cost {
					t.Errorf("bound %d is below the cost %d", run.Cost().Proven, tc.cost)
				}
			}
		})
	}
}

func TestEvalErrors(t *testing.T) {
	tests := []struct{ name, expr, want string }{
		{"absent", `object.absent.field == 1`, "no such key: absent"},
		{"index", `object.l[7] == 1`, "index out of bounds: 7"},
		{"division", `1 / (object.i - 3) == 1`, "division by zero"},
		{"types", `object.s > 1`, "no such overload"},
		{"variable", `variables.bad == 1`, `composited variable "bad" fails to evaluate: no such key: absent`},
		{"conversion", `int(object.s) == 1`, `type conversion error from 'string' to 'int'`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			program, err := newEngine(t, Config{}).Compile(&policies.Source{
				Inputs:      []string{"object"},
				Variables:   []policies.Variable{{Name: "bad", Expression: policies.Expression{Path: "bad", Text: "object.absent"}}},
				Expressions: []policies.Expression{{Path: "e", Text: tc.expr, Want: policies.Bool}},
			})
			if err != nil {
				t.Fatal(err)
			}
			run := program.Begin()
			run.Bind(0, mustDoc(t, object).Root())
			_, err = run.Eval(t.Context(), 0, nil)
			var eval *policies.EvalError
			if !errors.As(err, &eval) || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestIssues(t *testing.T) {
	tests := []struct {
		name string
		src  policies.Source
	}{
		{"undeclared", policies.Source{Expressions: []policies.Expression{{Path: "validations[0].expression", Text: "true && objekt.spec.replicas > 0", Want: policies.Bool}}}},
		{"syntax", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "object.spec.replicas >\n  && true", Want: policies.Bool}}}},
		{"wrong type", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "1 + 1", Want: policies.Bool}}}},
		{"dyn for bool", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "object.spec.paused", Want: policies.Bool}}}},
		{"dyn for string", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "object.spec.name", Want: policies.String}}}},
		{"no such variable", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "variables.absent == 1", Want: policies.Bool}}}},
		{"variable before its definition", policies.Source{
			Variables: []policies.Variable{
				{Name: "a", Expression: policies.Expression{Path: "variables[0]", Text: "variables.b"}},
				{Name: "b", Expression: policies.Expression{Path: "variables[1]", Text: "1"}},
			},
		}},
		{"typed variable", policies.Source{
			Variables:   []policies.Variable{{Name: "a", Expression: policies.Expression{Path: "variables[0]", Text: "1"}}},
			Expressions: []policies.Expression{{Path: "e", Text: "variables.a == 'x'", Want: policies.Bool}},
		}},
		{"names", policies.Source{
			Variables: []policies.Variable{
				{Name: "a-b", Expression: policies.Expression{Path: "variables[0]", Text: "1"}},
				{Name: "a", Expression: policies.Expression{Path: "variables[1]", Text: "1"}},
				{Name: "a", Expression: policies.Expression{Path: "variables[2]", Text: "2"}},
			},
		}},
		{"item outside", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "item.x == 1", Want: policies.Bool}}}},
		{"all at once", policies.Source{Expressions: []policies.Expression{
			{Path: "a", Text: "foo == bar", Want: policies.Bool}, {Path: "b", Text: ""}, {Path: "c", Text: "'ä' == ö", Want: policies.Bool},
		}}},
		{"no mutation in a validation", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "Object{} == Object{}", Want: policies.Bool}}}},
		{"not a patch", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "[1]", Want: policies.JSONPatch}}}},
		{"field of JSONPatch", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "[JSONPatch{op: 1}]", Want: policies.JSONPatch}}}},
		{"regex", policies.Source{Expressions: []policies.Expression{{Path: "e", Text: "'a'.matches('(')", Want: policies.Bool}}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.src.Inputs = []string{"object", "oldObject"}
			_, err := newEngine(t, Config{}).Compile(&tc.src)
			var issues policies.Issues
			if !errors.As(err, &issues) {
				t.Fatalf("want issues, got %v", err)
			}
			golden(t, strings.ReplaceAll(tc.name, " ", "_")+".issues", err.Error()+"\n")
		})
	}
}

// golden compares with testdata; WEIR_REWRITE=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("WEIR_REWRITE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestMutations(t *testing.T) {
	tests := []struct {
		name, expr, want string
		wantType         policies.Type
	}{
		{"object", `Object{spec: Object.spec{replicas: object.i, max: object.max, labels: {'a': 'b'}, list: [object.o, object.o]}}`,
			`{"spec":{"labels":{"a":"b"},"list":[{"a":{"b":"c"}},{"a":{"b":"c"}}],"max":9223372036854775807,"replicas":3}}`, policies.ApplyConfiguration},
		{"optional field", `Object{?a: object.?absent, ?b: object.?s}`, `{"b":"text"}`, policies.ApplyConfiguration},
		{"patch", `[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: object.max}, JSONPatch{op: 'move', from: '/a', path: '/b'}]`,
			`[{"op":"add","path":"/metadata/labels/a~1b","value":9223372036854775807},{"from":"/a","op":"move","path":"/b"}]`, policies.JSONPatch},
		{"patch with an object", `[JSONPatch{op: 'add', path: '/x', value: Object.x{y: Object.wrong{}}}]`, ``, policies.JSONPatch},
		{"empty patch", `object.i > 5 ? [JSONPatch{op: 'remove', path: '/x'}] : []`, `[]`, policies.JSONPatch},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			program, err := newEngine(t, Config{}).Compile(&policies.Source{
				Inputs: []string{"object"}, Expressions: []policies.Expression{{Path: "e", Text: tc.expr, Want: tc.wantType}},
			})
			if err != nil {
				t.Fatal(err)
			}
			run := program.Begin()
			run.Bind(0, mustDoc(t, object).Root())
			got, err := run.Eval(t.Context(), 0, nil)
			if tc.want == "" {
				if err == nil || !strings.Contains(err.Error(), "type mismatch") {
					t.Fatalf("want a type mismatch, got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s := string(got.Value.Bytes()); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
			if !json.Valid(got.Value.Bytes()) {
				t.Error("not JSON")
			}
		})
	}
}

func TestCostLimits(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 2000), ",") + "]"
	doc := mustDoc(t, `{"l":`+list+`}`)
	compile := func(t *testing.T, c Config, exprs ...string) policies.Run {
		src := &policies.Source{Inputs: []string{"object"}}
		for _, e := range exprs {
			src.Expressions = append(src.Expressions, policies.Expression{Path: "e", Text: e, Want: policies.Bool})
		}
		program, err := newEngine(t, c).Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		run := program.Begin()
		run.Bind(0, doc.Root())
		return run
	}
	t.Run("expression", func(t *testing.T) {
		run := compile(t, Config{ExpressionLimit: 50_000}, `object.l.all(x, object.l.all(y, y > 0))`)
		_, err := run.Eval(t.Context(), 0, nil)
		var cost *policies.CostError
		if !errors.As(err, &cost) || cost.Run || cost.Limit != 50_000 || cost.Used <= cost.Limit {
			t.Fatalf("got %v", err)
		}
		if want := "cost limit exceeded: expression used 50001 of 50000"; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	})
	t.Run("run", func(t *testing.T) {
		run := compile(t, Config{ExpressionLimit: 20_000, RunLimit: 20_000}, `object.l.all(x, x > 0)`)
		for range 2 {
			if _, err := run.Eval(t.Context(), 0, nil); err != nil {
				var cost *policies.CostError
				if !errors.As(err, &cost) || !cost.Run {
					t.Fatalf("got %v", err)
				}
				if want := "cost limit exceeded: all expressions together used 20006 of 20000"; err.Error() != want {
					t.Errorf("got %q, want %q", err, want)
				}
				return
			}
		}
		t.Fatal("want an error")
	})
	t.Run("interrupt", func(t *testing.T) {
		run := compile(t, Config{}, `object.l.all(x, object.l.all(y, y > 0))`)
		ctx := &countdown{Context: t.Context(), done: make(chan struct{})}
		ctx.left.Store(1)
		if _, err := run.Eval(ctx, 0, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestUnmeteredHasTheSameFunctions(t *testing.T) {
	e := newEngine(t, Config{})
	left := []string{"authorizer", "path", "serviceAccount", "group", "check", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector", "allowed", "reason", "errored", "error"}
	for name, decl := range e.mutating.Functions() {
		got := e.unmetered.Functions()[name]
		for _, o := range decl.OverloadDecls() {
			found := false
			if got != nil {
				for _, g := range got.OverloadDecls() {
					found = found || g.ID() == o.ID()
				}
			}
			if !found && !slices.Contains(left, name) {
				t.Errorf("%s: overload %s is missing", name, o.ID())
			}
		}
	}
}
