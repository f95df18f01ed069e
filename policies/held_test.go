package policies_test

import (
	"context"
	"errors"
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// countingEngine counts evaluations. An expression is true unless its text is false; it mentions the input that it names.
type countingEngine struct{ evaluations int }

func (*countingEngine) Name() string { return "counting" }

func (e *countingEngine) Compile(src *policies.Source) (policies.Program, error) {
	return countingProgram{e, src}, nil
}

type countingProgram struct {
	engine *countingEngine
	src    *policies.Source
}

func (p countingProgram) Begin() policies.Run { return countingRun(p) }
func (p countingProgram) Mentions(i int, input string) bool {
	return p.src.Expressions[i].Text == input
}

type countingRun countingProgram

func (countingRun) Bind(int, document.Value) {}
func (countingRun) Cost() policies.Cost      { return policies.Cost{} }
func (r countingRun) Eval(_ context.Context, i int, _ *policies.Locals) (policies.Verdict, error) {
	r.engine.evaluations++
	switch text := r.src.Expressions[i].Text; text {
	case "error":
		return policies.Verdict{}, &policies.EvalError{Err: errors.New("no")}
	default:
		return policies.Verdict{Bool: text != "false"}, nil
	}
}

// Conditions that do not look at params are evaluated once for all of them.
func TestHeld(t *testing.T) {
	parse := func(text string) document.Value {
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d.Root()
	}
	object, other := parse(`{"a":1}`), parse(`{"a":1}`)
	tests := []struct {
		name, text  string
		held        bool
		evaluations int
		holds, err  bool
	}{
		{"once", "object", true, 2, true, false}, // for each of two objects
		{"false", "false", true, 2, false, false},
		{"an error", "error", true, 2, false, true},
		{"params", "params", true, 20, true, false},
		{"not remembered", "object", false, 20, true, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			engine := &countingEngine{}
			c, err := policies.CompileConditions(engine, "x", []policies.NamedText{{Name: "a", Expression: tc.text}})
			if err != nil {
				t.Fatal(err)
			}
			var held *policies.Held
			if tc.held {
				held = &policies.Held{}
			}
			for range 10 {
				for _, obj := range []document.Value{object, other} {
					holds, err := c.Hold(t.Context(), &policies.Review{Object: obj, Params: object, Held: held})
					if holds != tc.holds || (err != nil) != tc.err {
						t.Fatalf("got %v, %v", holds, err)
					}
				}
			}
			if engine.evaluations != tc.evaluations {
				t.Errorf("%d evaluations, want %d", engine.evaluations, tc.evaluations)
			}
		})
	}
}
