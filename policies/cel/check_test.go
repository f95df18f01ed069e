package cel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
)

// admitted compiles one expression of admission.
func admitted(t *testing.T, text string, want policies.Type) (policies.Program, error) {
	t.Helper()
	engine, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return engine.Compile(&policies.Source{Inputs: policies.Inputs(), Authorizer: true, Admission: true,
		Expressions: []policies.Expression{{Path: "x", Text: text, Want: want}}})
}

// A field that a request or a namespace cannot have is refused when the expression is compiled.
func TestAdmissionTypes(t *testing.T) {
	tests := []struct {
		text string
		want policies.Type
		err  string
	}{
		{"request.operaton == 'CREATE'", policies.Bool, "undefined field 'operaton'"},
		{"request.userInfo.name == 'x'", policies.Bool, "undefined field 'name'"},
		{"has(request.userInfo.grups)", policies.Bool, "undefined field 'grups'"},
		{"namespaceObject.metadata.lables.size() > 0", policies.Bool, "undefined field 'lables'"},
		{"request.dryRun == 'x'", policies.Bool, "found no matching overload for '_==_' applied to '(bool, string)'"},
		{"request.name", policies.String, ""}, // it is known to be a string
		{"'by ' + request.userInfo.username", policies.String, ""},
		{"namespaceObject.metadata.uid + namespaceObject.status.phase", policies.String, ""},
		{"request.options.fieldManager == 'x'", policies.Bool, ""},
		{"timestamp(namespaceObject.metadata.creationTimestamp) > timestamp('2020-01-01T00:00:00Z')", policies.Bool, ""},
		{"object.anything.at.all == oldObject.spec", policies.Bool, ""},
	}
	for _, tc := range tests {
		t.Run(tc.text, func(t *testing.T) {
			_, err := admitted(t, tc.text, tc.want)
			var issues policies.Issues
			switch {
			case tc.err == "":
				if err != nil {
					t.Error(err)
				}
			case !errors.As(err, &issues) || !strings.Contains(issues[0].Message, tc.err):
				t.Errorf("got %v", err)
			}
		})
	}
}

// Their values are documents as they are.
func TestAdmissionTypesAreEvaluatedOnDocuments(t *testing.T) {
	request, err := document.Parse([]byte(`{"operation":"CREATE","kind":{"group":"","version":"v1","kind":"Pod"},"userInfo":{"username":"u","groups":["a","b"],"extra":{"k":["v"]}},"dryRun":false,"options":{"kind":"CreateOptions"}}`))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := document.Parse([]byte(`{"metadata":{"name":"n","uid":"1","labels":{"a":"b"},"creationTimestamp":"2026-01-01T00:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"request.operation == 'CREATE' && request.kind.kind == 'Pod' && request.kind.group == ''",
		"'b' in request.userInfo.groups && request.userInfo.groups.exists(g, g.startsWith('a'))",
		"request.userInfo.extra['k'] == ['v'] && request.userInfo.extra.k[0] == 'v' && has(request.userInfo.extra.k)",
		"!request.dryRun && !has(request.name) && !has(request.subResource) && request.?name.orValue('none') == 'none'",
		"request.options.kind == 'CreateOptions' && !has(request.options.dryRun)",
		"namespaceObject.metadata.labels.all(k, v, v == 'b') && namespaceObject.metadata.labels['a'] == 'b' && !has(namespaceObject.spec)",
		"timestamp(namespaceObject.metadata.creationTimestamp) > timestamp('2025-01-01T00:00:00Z')",
		"object == null && params == null",
	} {
		for _, always := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s metered %v", text, always), func(t *testing.T) {
				engine, err := cel.New(cel.Config{AlwaysMeter: always})
				if err != nil {
					t.Fatal(err)
				}
				p, err := engine.Compile(&policies.Source{Inputs: policies.Inputs(), Admission: true, Expressions: []policies.Expression{{Path: "x", Text: text, Want: policies.Bool}}})
				if err != nil {
					t.Fatal(err)
				}
				run := p.Begin()
				policies.BindReview(run, &policies.Review{Request: request.Root(), NamespaceObject: namespace.Root()})
				if v, err := run.Eval(t.Context(), 0, nil); err != nil || !v.Bool {
					t.Errorf("got %v, %v", v.Bool, err)
				}
			})
		}
	}
}

func TestCheck(t *testing.T) {
	engine, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	definitions := map[string][]byte{
		"example.Thing": []byte(`{"type":"object","properties":{"metadata":{"$ref":"#/components/schemas/example.Meta"},"spec":{"type":"object","properties":{"replicas":{"type":"integer"},"names":{"type":"array","items":{"type":"string"}}}}}}`),
		"example.Meta":  []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		"example.Limit": []byte(`{"type":"object","properties":{"most":{"type":"integer"}}}`),
	}
	thing, err := cel.NewObjectType("example.Thing", definitions)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := cel.NewObjectType("example.Limit", definitions)
	if err != nil {
		t.Fatal(err)
	}
	src := &policies.Source{Inputs: policies.Inputs(), Authorizer: true,
		Variables: []policies.Variable{{Name: "n", Expression: policies.Expression{Text: "object.spec.replicas"}}, {Name: "broken", Expression: policies.Expression{Text: "object.foo"}}}}
	texts := []string{"object.spec.replicas <= params.most", "object.spec.replicsa > 1", "variables.n > 'a'", "variables.broken > 1", "oldObject.metadata.name == object.metadata.name",
		"params.least > 1", "object.spec.names.all(n, n > 1)"}
	for _, text := range texts {
		src.Expressions = append(src.Expressions, policies.Expression{Text: text})
	}
	got, err := engine.Check(src, thing, limit)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"",
		"ERROR: <input>:1:12: undefined field 'replicsa'\n | object.spec.replicsa > 1\n | ...........^",
		"ERROR: <input>:1:13: found no matching overload for '_>_' applied to '(int, string)'\n | variables.n > 'a'\n | ............^",
		"", "", "ERROR: <input>:1:7: undefined field 'least'\n | params.least > 1\n | ......^",
		"ERROR: <input>:1:28: found no matching overload for '_>_' applied to '(string, int)'\n | object.spec.names.all(n, n > 1)\n | ...........................^"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s:\ngot  %q\nwant %q", texts[i], got[i], want[i])
		}
	}
	// Nothing is known of a kind without a schema, and all is dyn.
	if got, err := engine.Check(src, nil, nil); err != nil || got[1] != "" {
		t.Errorf("got %v, %v", got, err)
	}
	// Params may be of the kind that is judged.
	if got, err := engine.Check(src, thing, thing); err != nil || !strings.Contains(got[5], "undefined field 'least'") {
		t.Errorf("got %v, %v", got, err)
	}
}
