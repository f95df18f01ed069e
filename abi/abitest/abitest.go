// Package abitest is a conformance kit for the contract in package abi.
//
// A conformance guest is built with an SDK, or by hand, to do what the
// clauses in [Clauses] say: one clause is one case. [RunTestGuest] runs it on
// a host and checks every clause. It tests an SDK if the host is known to be
// right, and a host if the guest is.
//
// A guest has to have the hooks of [Hooks]; clauses of other hooks are for
// those that list them. sdk/conformance has a guest for each SDK.
package abitest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir.dev/weir/abi"
)

// Host loads guests.
type Host interface {
	// Load makes a guest ready, with settings in JSON. It grants what
	// [Capabilities] are.
	Load(ctx context.Context, wasm []byte, settings string) (Guest, error)
}

// Guest is a loaded module.
type Guest interface {
	// Manifest is how the guest describes itself.
	Manifest() abi.Manifest
	// Call runs a hook. An error may be a [Failure].
	Call(ctx context.Context, call Call) (Outcome, error)
	// Close gives the guest back.
	Close(ctx context.Context) error
}

// Failure is an error of a call whose host tells what kind of failure it was.
type Failure interface {
	error
	// FailureClass is Trap, Fuel, Deadline, Memory, Depth, BadOutput or
	// another name of the host's.
	FailureClass() string
}

// Call is one call of a hook. Slots are JSON; an empty one is absent.
type Call struct {
	Op                         abi.Op
	Meta                       abi.Meta
	Object, OldObject          string
	Options, Params, Namespace string
	// TargetVersion of a conversion, "group/version".
	TargetVersion string
}

// Outcome is what a hook answered.
type Outcome struct {
	// Object is the new object in JSON, empty if nothing changed.
	Object string
	abi.Result
}

// Clause is one thing that a conformance guest does.
type Clause struct {
	// Name is the value of spec.case that asks for it.
	Name string
	// Op in which it is asked.
	Op abi.Op
	// Does says what the guest has to do.
	Does string

	needs  string      // the capability without which it is not asked
	object string      // what is asked with; "" is the usual object
	call   func(*Call) // changes to the usual call
	check  func(Outcome) error
	fails  string // the call must be an error of this class
}

// Call is what a clause is asked with.
func (c Clause) Call() Call {
	call := Call{
		Op: c.Op,
		Meta: abi.Meta{
			UID: "uid-1", Operation: abi.OperationCreate, Time: "2026-01-02T03:04:05.000000006Z",
			Group: "example.com", Version: "v1", Kind: "Thing", Resource: "things", Name: "thing",
			User: abi.User{Username: "jane", Groups: []string{"a"}},
		},
		Object: c.object,
	}
	if call.Object == "" {
		call.Object = object(c.Name)
	}
	switch c.Op {
	case abi.OpPrepareForUpdate, abi.OpValidateUpdate, abi.OpStatusPrepare, abi.OpStatusValidate, abi.OpWarningsOnUpdate:
		call.Meta.Operation = abi.OperationUpdate
		call.OldObject = object("before")
	case abi.OpValidateDelete:
		call.Meta.Operation = abi.OperationDelete
		call.Object, call.OldObject = "", call.Object
	}
	if c.call != nil {
		c.call(&call)
	}
	return call
}

// Check tells in what an answer differs from what the clause says; err is the
// error of the call.
func (c Clause) Check(o Outcome, err error) error {
	var f Failure
	switch {
	case c.fails != "" && err == nil:
		return errors.New("no failure")
	case c.fails != "" && errors.As(err, &f) && f.FailureClass() != c.fails:
		return fmt.Errorf("class %s, want %s: %w", f.FailureClass(), c.fails, err)
	case c.fails != "":
		return nil
	case err != nil:
		return err
	}
	return c.check(o)
}

// runTestSettings checks that settings which make no sense are refused, and how.
func runTestSettings(t *testing.T, h Host, wasm []byte) {
	t.Helper()
	tests := []struct {
		name, settings string
		want           []string // parts of the refusal
	}{
		{"without a greeting", `{"greeting":""}`, []string{"greeting: FieldValueRequired"}},
		{"of another type", `{"greeting":5}`, []string{"greeting: FieldValueTypeInvalid"}},
		{
			"of a misspelt name", `{"greeting":"hello","greetin":"x"}`,
			[]string{`greetin: FieldValueForbidden: unknown setting, did you mean "greeting"? there are "greeting", "tone"`},
		},
		{"of another name", `{"greeting":"hello","volume":11}`, []string{`volume: FieldValueForbidden: unknown setting; there are "greeting", "tone"`}},
		{
			"of a misspelt name within", `{"greeting":"hello","tone":{"Pitches":1,"pitch":2}}`,
			[]string{`tone.Pitches: FieldValueForbidden: unknown setting, did you mean "pitch"? there are "pitch"`},
		},
		{"of another type within", `{"greeting":"hello","tone":{"pitch":"high"}}`, []string{"tone.pitch: FieldValueTypeInvalid"}},
		{"that are no object within", `{"greeting":"hello","tone":"high"}`, []string{"tone: FieldValueTypeInvalid"}},
		{"no object", `["hello"]`, []string{"settings: FieldValueTypeInvalid"}},
	}
	for _, tc := range tests {
		t.Run("refuses settings "+tc.name, func(t *testing.T) {
			_, err := h.Load(t.Context(), wasm, tc.settings)
			if err == nil {
				t.Fatalf("the guest took %s", tc.settings)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v; want %q in it", err, part)
				}
			}
		})
	}
}

// RunTestGuest checks every clause, twice and in turns, so that what one
// call leaves in a guest is noticed by another.
func RunTestGuest(t *testing.T, h Host, wasm []byte) {
	t.Helper()
	g, err := h.Load(t.Context(), wasm, Settings)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	defer func() {
		if err := g.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	m := g.Manifest()
	ops, unknown := m.OpSet()
	if m.Name == "" || unknown != "" {
		t.Errorf("manifest %+v", m)
	}
	for _, op := range Hooks() {
		if !ops.Has(op) {
			t.Errorf("hook %v is not listed", op)
		}
	}
	for round := range 2 {
		for _, c := range Clauses() {
			if !ops.Has(c.Op) || c.needs != "" && !slices.Contains(m.Capabilities, c.needs) {
				continue
			}
			t.Run(fmt.Sprintf("%v %s %d", c.Op, c.Name, round), func(t *testing.T) {
				o, err := g.Call(t.Context(), c.Call())
				if err := c.Check(o, err); err != nil {
					t.Errorf("%v; want: %s", err, c.Does)
				}
			})
		}
	}
	if ops.Has(abi.OpDefault) {
		runTestSettings(t, h, wasm)
	}
}
