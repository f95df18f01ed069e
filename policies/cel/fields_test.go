package cel

import (
	"fmt"
	"strings"
	"testing"

	"weir.dev/weir/policies"
)

// outcomeOf is what an expression gives under a configuration: a value or an error.
func outcomeOf(t *testing.T, e *Engine, text string) string {
	t.Helper()
	program, err := e.Compile(&policies.Source{
		Inputs:      policies.Inputs(),
		Admission:   true,
		Variables:   []policies.Variable{{Name: "o", Expression: policies.Expression{Path: "o", Text: "object.o"}}},
		Expressions: []policies.Expression{{Path: "e", Text: text}},
	})
	if err != nil {
		return "does not compile: " + err.Error()
	}
	run := program.Begin()
	run.Bind(0, mustDoc(t, object).Root())
	run.Bind(2, mustDoc(t, `{"operation":"CREATE","userInfo":{"username":"u","groups":["g"],"extra":{"k":["v"]}},"dryRun":false,"options":{"kind":"CreateOptions"}}`).Root())
	run.Bind(4, mustDoc(t, `{"metadata":{"name":"n","labels":{"a":"b"}},"status":null}`).Root())
	got, err := run.Eval(t.Context(), 0, nil)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(got.Value.Bytes())
}

// TestFieldPaths: what reads a path of fields in one step gives the values and errors of cel-go's own steps, which a
// metered evaluation takes.
func TestFieldPaths(t *testing.T) {
	own, celgo := newEngine(t, Config{}), newEngine(t, Config{AlwaysMeter: true})
	paths := []string{
		"object", "object.i", "object.whole", "object.s", "object.n", "object.o", "object.o.a", "object.o.a.b", "object.l", "object.labels",
		"object.absent", "object.o.absent.b", "object.i.z", "object.n.z", "object.s.z", "object.l.z", "object.o.a.b.c",
		"object['o'].a", "object.o['a'].b", "object.o[object.words[0]]", "object.l[1]", "object.?o.a", "oldObject", "oldObject.i", "variables.o.a.b",
		"request", "request.operation", "request.namespace", "request.userInfo.username", "request.userInfo.groups", "request.userInfo.extra", "request.dryRun",
		"request.options.kind", "request.options.z", "request.kind.kind", "namespaceObject.metadata.name", "namespaceObject.metadata.labels",
		"namespaceObject.metadata.annotations", "namespaceObject.status.phase", "params", "params.p",
		"(object.b ? object.o : object.l).a", "object.words.map(w, object.s)[0]",
	}
	uses := []string{
		"%s", "%s == 3", "%s != 'c'", "%s == 'CREATE'", "%s != 3", "%s < 3", "%s <= 3", "%s > 3", "%s >= 3", "%s < 2", "%s <= 2", "%s > 4", "%s >= 4", "%s < 'c'", "%s <= 'c'", "%s > 'c'", "%s >= 'c'", "%s <= 2.5",
		"%s == null", "%s == true", "[1].exists(x, %s >= 3)", "dyn(%s) == 'CREATE'", "has(%s.b)", "!has(%s.z)", "type(%s)", "size(%s)", "%s.z", "%s.?b.orValue(0)", "(%s)['a']", "%s[0]",
		"%s ? 1 : 2", "object.b ? %s : object.i", "object.b || %s", "[1, 3].exists(x, x == %s)", "[1].map(x, %s)", "[%s]", "{'k': %s}.k", "dyn(%s)",
		"[{'i': dyn(7), 'o': dyn({'a': 1})}].map(object, %s)", "[{'i': 8}].exists(object, %s == 8)", "'%%s'.format([%s])",
	}
	values := 0
	for _, use := range uses {
		for _, path := range paths {
			text := fmt.Sprintf(use, path)
			got, want := outcomeOf(t, own, text), outcomeOf(t, celgo, text)
			if got != want {
				t.Errorf("%s: %s, cel-go %s", text, got, want)
			}
			if !strings.HasPrefix(want, "does not compile") && !strings.HasPrefix(want, "error") {
				values++
			}
		}
	}
	if least := len(uses) * len(paths) / 4; values < least {
		t.Errorf("%d expressions have a value, want %d", values, least)
	}
}

// TestFieldPathTakesOneStep: a path of fields makes no value of the objects on the way.
func TestFieldPathTakesOneStep(t *testing.T) {
	program, err := newEngine(t, Config{}).Compile(&policies.Source{Inputs: []string{"object"},
		Expressions: []policies.Expression{{Path: "e", Text: "object.o.a.b == 'c'", Want: policies.Bool}}})
	if err != nil {
		t.Fatal(err)
	}
	run, doc := program.Begin(), mustDoc(t, object)
	run.Bind(0, doc.Root())
	if n := testing.AllocsPerRun(100, func() {
		if v, err := run.Eval(t.Context(), 0, nil); err != nil || !v.Bool {
			t.Fatal(v, err)
		}
	}); n >= 2 { // the text that is compared, and what a pool has lost
		t.Errorf("%v allocations", n)
	}
}
