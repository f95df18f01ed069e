package cel

import (
	"fmt"
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// TestContinue: a program says the same by a run that has judged by another program, by the same documents or by others, as
// by one of its own, at the same cost.
func TestContinue(t *testing.T) {
	e := newEngine(t, Config{})
	texts := []string{
		"object.o.a.b", "object.o", "object.l", "object.absent", "object.s + string(object.i)", "variables.v", "variables.v == oldObject.o",
		"oldObject.o.a", "oldObject", "has(oldObject.b) && object != oldObject", "params.p", "params", "request.operation", "namespaceObject.metadata.name",
		"object.words.exists(w, w == oldObject.s)", "size(params.wide) + (params.wide.all(p, p in params.wide) ? 1 : 0)", "1 / 0", "object['s\\x00t']", "object.s.t",
	}
	programs := make([]policies.Program, len(texts))
	for i, text := range texts {
		var err error
		if programs[i], err = e.Compile(&policies.Source{Inputs: policies.Inputs(), Admission: true,
			Variables:   []policies.Variable{{Name: "v", Expression: policies.Expression{Path: "v", Text: fmt.Sprintf("object.o == null ? %d : object.o", i)}}},
			Expressions: []policies.Expression{{Path: "e", Text: text}}}); err != nil {
			t.Fatal(text, err)
		}
	}
	wide := `[1`
	for i := range 100 {
		wide += fmt.Sprint(",", i)
	}
	list := []document.Value{{}, mustDoc(t, object).Root(), mustDoc(t, `{"o":{"a":{"b":"other"}},"s":"q","i":4,"s\u0000t":"one name","l":[],"words":["q"]}`).Root(),
		mustDoc(t, `{"p":7,"wide":`+wide+`],"s":{"t":"two names"},"metadata":{"name":"n"},"operation":"CREATE"}`).Root()}
	answer := func(run policies.Run, p int, bound [5]int) string {
		for i, n := range bound {
			if programs[p].Mentions(0, policies.Inputs()[i]) {
				run.Bind(i, list[n])
			}
		}
		got, err := run.Eval(t.Context(), 0, nil)
		if err != nil {
			return fmt.Sprint(err, run.Cost())
		}
		return fmt.Sprint(string(got.Value.Bytes()), run.Cost())
	}
	run := programs[0].Begin()
	binds := [][5]int{{1, 2, 3, 3, 3}, {2, 1, 3, 3, 3}, {2, 0, 0, 1, 0}, {3, 3, 1, 2, 1}, {0, 0, 0, 0, 0}, {1, 2, 3, 3, 3}}
	for n, bound := range append(binds, binds...) {
		for i := range programs {
			p := (i*7 + n) % len(programs) // in several orders
			if c, ok := programs[p].(policies.Continuer); !ok || !c.Continue(run) {
				t.Fatal("a run does not go on")
			}
			if got, want := answer(run, p, bound), answer(programs[p].Begin(), p, bound); got != want {
				t.Errorf("%s by %v: %s, by a run of its own %s", texts[p], bound, got, want)
			}
		}
	}
	other, err := e.Compile(&policies.Source{Inputs: []string{"self"}, Expressions: []policies.Expression{{Path: "e", Text: "self"}}})
	if err != nil {
		t.Fatal(err)
	}
	if other.(policies.Continuer).Continue(run) {
		t.Error("a run goes on with other inputs")
	}
}
