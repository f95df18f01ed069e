package abitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"weir.dev/weir/abi"
)

// Settings are what a conformance guest is configured with.
const Settings = `{"greeting":"hello"}`

// Hooks are those that a conformance guest lists.
func Hooks() []abi.Op {
	return []abi.Op{abi.OpConfigure, abi.OpPrepareForCreate, abi.OpValidateCreate, abi.OpValidateUpdate}
}

// fillerBytes is more than any guest's first buffer.
const fillerBytes = 200_000

// Clauses returns what a conformance guest does. The case is in spec.case of
// the object, or where there is none, of the old object; in a case that is not
// listed the guest has no objection and changes nothing. Its configure hook
// refuses settings whose member greeting, a string, is empty, and knows one more,
// tone.pitch, an integer: what is of another type and any other member it refuses,
// too, with errors that name the member and those that there are.
func Clauses() []Clause {
	return slices.Concat(verdicts(), reads(), changes(), lookups(), admissions(), sins())
}

// verdicts are the clauses of the hooks that every guest has.
func verdicts() []Clause {
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
			check: becomes(strings.Replace(object("mutate"), `"n":`, `"mutated":true,"n":`, 1)),
		},
		{
			Name: "keep", Op: abi.OpPrepareForCreate, Does: "changes nothing",
			check: unchanged,
		},
		{
			Name: "count", Op: abi.OpValidateCreate, Does: "a warning with the number of earlier calls with this case that the guest's memory knows of, decimal",
			check: warns("0"),
		},
		{Name: "fail", Op: abi.OpValidateCreate, Does: `returns StatusFailed with the failure "asked for"`, fails: "trap"},
		{Name: "trap", Op: abi.OpValidateCreate, Does: "traps", fails: "trap"},
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

// becomes wants an object that is equal, whatever the order of its members,
// numbers as they are spelled.
func becomes(object string) func(Outcome) error {
	return func(o Outcome) error {
		got, err := decode(o.Object)
		if err != nil {
			return fmt.Errorf("object %q: %w", o.Object, err)
		}
		wanted, err := decode(object)
		if err != nil {
			return err
		}
		return want(reflect.DeepEqual(got, wanted) && len(o.Errors) == 0 && o.Denied == nil, o)
	}
}

func decode(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// unchanged wants the object as it was.
func unchanged(o Outcome) error { return want(o.Object == "", o) }

func warns(texts ...string) func(Outcome) error {
	return func(o Outcome) error { return want(slices.Equal(o.Warnings, texts), o) }
}
