package cases_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/sdk/cases"
)

func TestRun(t *testing.T) {
	const text = `
base: {kind: Thing, apiVersion: example.com/v1, metadata: {name: a}}
cases:
- name: it only annotates
  hook: validateCreate
  expect: {audit: {by: echo}}
- name: wrong expectations
  hook: validateCreate
  change: {spec: {n: 1}}
  expect:
    change: {spec: {n: 2}}
    errors: [{type: FieldValueInvalid, field: spec.n}]
    denied: {code: 403}
    warnings: [beware]
    failure: trap
- name: no such hook
  hook: default
`
	suites, err := cases.Load(fstest.MapFS{"cases/a.yaml": {Data: []byte(text)}}, "cases")
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := host.NewRuntime(host.Config{Interpreter: true})
	if err != nil {
		t.Fatal(err)
	}
	r := cases.NewRunner(runtime, hosttest.Echo("echo"), host.ModuleConfig{Name: "echo"})
	defer func() {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := runtime.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	want := [][]string{
		nil,
		{"no failure; want trap", "object:\n", "missing error: ", "not denied; want ", "warnings: [];", "audit: map[by:echo]"},
		{"has no hook default"},
	}
	if len(suites) != 1 || suites[0].Name != "a" || len(suites[0].Cases) != len(want) {
		t.Fatalf("suites %+v", suites)
	}
	for i, c := range suites[0].Cases {
		got, err := r.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Problems) != len(want[i]) {
			t.Errorf("%s: %q, want %q", c.Name, got.Problems, want[i])
			continue
		}
		for j, problem := range got.Problems {
			if !strings.Contains(problem, want[i][j]) {
				t.Errorf("%s: %q, want %q", c.Name, problem, want[i][j])
			}
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"nothing", "cases: []", "no cases"},
		{"a name twice", "base: {}\ncases: [{name: a, hook: default}, {name: a, hook: default}]", `name "a" is empty or taken`},
		{"a hook there is none of", "cases: [{name: a, hook: validate, object: {}}]", `hook "validate" does not exist; there are configure, default, `},
		{"no object at all", "just a text", "it is a string, and has to be an object with the members settings, request, base, "},
		{"a misspelled member of the file", "base: {}\ncase: []", `unknown field "case"; there are settings, request, base, objects, allow, cases`},
		{"a member of another type", "base: {}\ncases: {name: a}", "cases must not be an object"},
		{"a case that is none", "base: {}\ncases: [default]", `case "0": it is a string, and has to be an object with the members name, hook, `},
		{
			"a misspelled expectation", "base: {}\ncases: [{name: a, hook: default, expect: {error: []}}]",
			`case "a": unknown field "error"; there are name, hook, settings, request, object, change, oldObject, oldChange, options, params, namespace, targetVersion, objects, allow, expect; and in expect object, change, errors, `,
		},
		{"a misspelled member", "cases: [{name: a, hook: default, objet: {}}]", "objet"},
		{"no object", "cases: [{name: a, hook: default}]", "neither an object nor a base"},
		{"both", "base: {}\ncases: [{name: a, hook: default, object: {}, change: {}}]", "both the whole and a change"},
		{"no base", "cases: [{name: a, hook: default, change: {}}]", "no base to change"},
		{"settings refused elsewhere", "base: {}\ncases: [{name: a, hook: default, expect: {refused: x}}]", "in the hook configure"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := cases.Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestRequest: the request is that which the objects would have come by.
func TestRequest(t *testing.T) {
	s, err := cases.Parse([]byte(`
base: {kind: Thing, apiVersion: example.com/v1, metadata: {name: a, namespace: b}}
request: {user: {username: jane}}
cases:
- {name: deletion, hook: validateDelete}
- {name: update, hook: validateUpdate, request: {dryRun: true}}
- {name: creation, hook: admitMutate}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []abi.Operation{abi.OperationDelete, abi.OperationUpdate, abi.OperationCreate} {
		c := s.Cases[i].Call
		if got := c.Meta.Get("operation").String(); got != string(want) {
			t.Errorf("%s: operation %s, want %s", s.Cases[i].Name, got, want)
		}
		if c.Meta.Get("user", "username").String() != "jane" || c.Meta.Get("group").String() != "example.com" || c.Meta.Get("namespace").String() != "b" {
			t.Errorf("meta %s", c.Meta.Bytes())
		}
		if (c.Object == nil) != (want == abi.OperationDelete) || (c.OldObject == nil) != (want == abi.OperationCreate) {
			t.Errorf("%s: objects %v, %v", s.Cases[i].Name, c.Object, c.OldObject)
		}
	}
}
