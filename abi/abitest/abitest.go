// Package abitest is a conformance kit for the contract in package abi.
//
// A conformance guest is built with an SDK, or by hand, to do what the
// clauses in [Clauses] say. [RunTestGuest] runs it on a host and checks
// every clause. It tests an SDK if the host is known to be right, and a host
// if the guest is.
package abitest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir.dev/weir/abi"
)

// Host loads guests.
type Host interface {
	// Load makes a guest ready, with settings in JSON.
	Load(ctx context.Context, wasm []byte, settings string) (Guest, error)
}

// Guest is a loaded module.
type Guest interface {
	// Manifest is how the guest describes itself.
	Manifest() abi.Manifest
	// Call runs a hook.
	Call(ctx context.Context, call Call) (Outcome, error)
	// Close gives the guest back.
	Close(ctx context.Context) error
}

// Call is one call of a hook. Slots are JSON; an empty one is absent.
type Call struct {
	Op                abi.Op
	Meta              abi.Meta
	Object, OldObject string
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

	call  func(*Call) // changes to the usual call
	check func(Outcome) error
	fails bool // the call must be an error
}

// Settings are what a conformance guest is configured with.
const Settings = `{"greeting":"hello"}`

// Hooks are those that a conformance guest lists.
func Hooks() []abi.Op {
	return []abi.Op{abi.OpConfigure, abi.OpPrepareForCreate, abi.OpValidateCreate, abi.OpValidateUpdate}
}

// fillerBytes is more than any guest's first buffer.
const fillerBytes = 200_000

// Clauses returns what a conformance guest does. The case is in spec.case of
// the object; in a case that is not listed the guest has no objection and
// changes nothing.
func Clauses() []Clause {
	return []Clause{
		{
			Name: "nothing", Op: abi.OpValidateCreate, Does: "writes nothing and returns StatusOK",
			check: func(o Outcome) error {
				return want(len(o.Errors)+len(o.Warnings)+len(o.Audit) == 0 && o.Denied == nil, o)
			},
		},
		{
			Name: "errors", Op: abi.OpValidateCreate,
			Does: `one error of type Invalid, field "spec.case", value "errors", detail "asked for", and one of type Required, field "spec.other", detail "", without a value`,
			check: func(o Outcome) error {
				if len(o.Errors) != 2 {
					return want(false, o)
				}
				a, b := o.Errors[0], o.Errors[1]
				return want(a.Type == abi.ErrorTypeInvalid && a.Field == "spec.case" && string(a.Value) == `"errors"` && a.Detail == "asked for" &&
					b.Type == abi.ErrorTypeRequired && b.Field == "spec.other" && (len(b.Value) == 0 || string(b.Value) == `""`) && b.Detail == "", o)
			},
		},
		{
			Name: "denied", Op: abi.OpValidateCreate, Does: `a denial with code 409, reason "Conflict", message "asked for"`,
			check: func(o Outcome) error {
				return want(o.Denied != nil && *o.Denied == abi.Denial{Code: 409, Reason: "Conflict", Message: "asked for"}, o)
			},
		},
		{
			Name: "warnings", Op: abi.OpValidateCreate, Does: `the warnings "one" and "zwei €"`,
			check: warns("one", "zwei €"),
		},
		{
			Name: "audit", Op: abi.OpValidateCreate, Does: `the audit annotation key: value`,
			check: func(o Outcome) error { return want(maps.Equal(o.Audit, map[string]string{"key": "value"}), o) },
		},
		{
			Name: "settings", Op: abi.OpValidateCreate, Does: "a warning with the member greeting of its settings",
			check: warns("hello"),
		},
		{
			Name: "meta", Op: abi.OpValidateUpdate, Does: "warnings with uid, operation, time, name and user.username of the request",
			check: warns("uid-1", "UPDATE", "2026-01-02T03:04:05.000000006Z", "thing", "jane"),
		},
		{
			Name: "old", Op: abi.OpValidateUpdate, Does: "a warning with spec.case of the old object",
			check: warns("before"),
		},
		{
			Name: "large", Op: abi.OpValidateCreate, Does: "a warning with the length of the string spec.filler in bytes, decimal",
			call: func(c *Call) {
				c.Object = strings.Replace(c.Object, `"filler":""`, `"filler":"`+strings.Repeat("x", fillerBytes)+`"`, 1)
			},
			check: warns(fmt.Sprint(fillerBytes)),
		},
		{
			Name: "mutate", Op: abi.OpPrepareForCreate, Does: "sets spec.mutated to true and changes nothing else",
			check: func(o Outcome) error {
				var got, before map[string]any
				if err := json.Unmarshal([]byte(o.Object), &got); err != nil {
					return fmt.Errorf("object: %w", err)
				}
				if err := json.Unmarshal([]byte(object("mutate")), &before); err != nil {
					return err
				}
				before["spec"].(map[string]any)["mutated"] = true
				a, _ := json.Marshal(got)
				b, _ := json.Marshal(before)
				return want(string(a) == string(b), o)
			},
		},
		{
			Name: "keep", Op: abi.OpPrepareForCreate, Does: "changes nothing",
			check: func(o Outcome) error { return want(o.Object == "", o) },
		},
		{
			Name: "count", Op: abi.OpValidateCreate, Does: "a warning with the number of earlier calls with this case that the guest's memory knows of, decimal",
			check: warns("0"),
		},
		{Name: "fail", Op: abi.OpValidateCreate, Does: `returns StatusFailed with the failure "asked for"`, fails: true},
		{Name: "trap", Op: abi.OpValidateCreate, Does: "traps", fails: true},
	}
}

func object(name string) string {
	return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"thing"},"spec":{"case":"` + name + `","filler":"","n":9007199254740993}}`
}

func want(ok bool, o Outcome) error {
	if ok {
		return nil
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return fmt.Errorf("answered %s", b)
}

func warns(texts ...string) func(Outcome) error {
	return func(o Outcome) error { return want(slices.Equal(o.Warnings, texts), o) }
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
			t.Run(fmt.Sprintf("%s %d", c.Name, round), func(t *testing.T) {
				call := Call{
					Op: c.Op,
					Meta: abi.Meta{
						UID: "uid-1", Operation: abi.OperationCreate, Time: "2026-01-02T03:04:05.000000006Z",
						Group: "example.com", Version: "v1", Kind: "Thing", Resource: "things", Name: "thing",
						User: abi.User{Username: "jane", Groups: []string{"a"}},
					},
					Object: object(c.Name),
				}
				if c.Op == abi.OpValidateUpdate {
					call.Meta.Operation = abi.OperationUpdate
					call.OldObject = object("before")
				}
				if c.call != nil {
					c.call(&call)
				}
				o, err := g.Call(t.Context(), call)
				switch {
				case c.fails && err == nil:
					t.Errorf("%s: no failure; it %s", c.Name, c.Does)
				case c.fails:
				case err != nil:
					t.Errorf("%s: %v", c.Name, err)
				default:
					if err := c.check(o); err != nil {
						t.Errorf("%s: %v; want: %s", c.Name, err, c.Does)
					}
				}
			})
		}
	}
}
