package cel

import (
	"fmt"
	"strings"
	"unicode/utf8"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// A cost limit is checked after a function was evaluated, and takes no account of what
// some functions make: of 2,000 letters, s.replace('a', s).replace('a', s) makes 8 GB at a
// cost of a million. So functions whose result can be larger than their arguments, and
// those whose time grows faster, are guarded: what they would take is computed from their
// arguments before they are called.
const (
	// maxAllocBytes bounds what guarded functions may make in a run.
	maxAllocBytes = 32 << 20
	// maxWork bounds one call: pairs of elements, bytes that are compared, or bytes of text
	// by characters of a regular expression; maxRunWork all calls of a run.
	maxWork    = 1 << 24
	maxRunWork = 1 << 28
	// elementBytes is what an element of a list takes.
	elementBytes = 16
)

// A guard gives what a call would allocate, in bytes, and its work.
type guard func(args []ref.Val) (alloc, work uint64)

// guards by function. Those of a literal argument are left out in guarded.
var guards = map[string]guard{ // never written to
	operators.Add:           guardAdd,
	operators.Equals:        guardEqual,
	operators.NotEquals:     guardEqual,
	operators.In:            guardIn,
	"replace":               guardReplace,
	"join":                  guardJoin,
	"format":                guardFormat,
	"bytes":                 guardCopy,
	"sort":                  guardCopy,
	"@sortByAssociatedKeys": guardCopy,
	"reverse":               guardCopy,
	"slice":                 guardCopy,
	"split":                 guardSplit,
	"findAll":               guardRegex,
	"find":                  guardRegex,
	"matches":               guardRegex,
	"lists.range":           guardRange,
	"flatten":               guardFlatten,
	"distinct":              guardDistinct,
	"sets.contains":         guardPairs,
	"sets.equivalent":       guardPairs,
	"sets.intersects":       guardPairs,
	"base64.encode":         guardCopy,
	"strings.quote":         guardCopy,
	"jsonpatch.escapeKey":   guardCopy,
}

// guardedFunctions gives for each guarded function of env what it is bound to.
func guardedFunctions(env *celgo.Env) (map[string]*functions.Overload, error) {
	bound := map[string]*functions.Overload{}
	for name := range guards {
		decl, ok := env.Functions()[name]
		if !ok {
			continue
		}
		bindings, err := decl.Bindings()
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", name, err)
		}
		for _, b := range bindings {
			if b.Operator == name {
				bound[name] = b
			}
		}
	}
	return bound, nil
}

// guarded decorates the steps of a program so that its calls are guarded.
func guarded(bound map[string]*functions.Overload) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		name := call.Function()
		g, overload := guards[name], bound[name]
		if g == nil || overload == nil {
			return i, nil
		}
		switch name {
		case operators.Add:
			switch call.OverloadID() {
			case "add_int64", "add_uint64", "add_double":
				return i, nil
			}
		case operators.Equals, operators.NotEquals, operators.In:
			for _, a := range call.Args() {
				if _, ok := a.(interpreter.InterpretableConst); ok {
					return i, nil
				}
			}
		}
		return &guardedCall{InterpretableCall: call, guard: g, overload: overload, args: call.Args()}, nil
	}
}

// guardedCall evaluates its arguments, asks the guard, and calls the function.
type guardedCall struct {
	interpreter.InterpretableCall
	guard    guard
	overload *functions.Overload
	args     []interpreter.InterpretableV2
}

// Eval implements interpreter.Interpretable.
func (c *guardedCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (c *guardedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, a := range c.args {
		args[i] = a.Exec(frame)
	}
	for _, v := range args {
		if types.IsUnknownOrError(v) {
			return v
		}
	}
	alloc, work := c.guard(args)
	if work > maxWork {
		return types.NewErrWithNodeID(c.ID(), "%s: arguments are too large", c.name())
	}
	if alloc > elementBytes || work > elementBytes {
		if r := runOf(frame); r != nil {
			r.allocated += alloc
			r.worked += work
			alloc, work = r.allocated, r.worked
		}
		if work > maxRunWork {
			return types.NewErrWithNodeID(c.ID(), "%s: too much work in all calls together", c.name())
		}
		if alloc > maxAllocBytes {
			return types.NewErrWithNodeID(c.ID(), "%s: results take more than %d MiB", c.name(), maxAllocBytes>>20)
		}
	}
	return types.LabelErrNode(c.ID(), c.call(args))
}

func (c *guardedCall) name() string { return strings.Trim(c.Function(), "_@") }

func (c *guardedCall) call(args []ref.Val) ref.Val {
	switch c.Function() { // these two are no ordinary functions
	case operators.Equals:
		return types.Equal(args[0], args[1])
	case operators.NotEquals:
		return types.Bool(types.Equal(args[0], args[1]) != types.True)
	}
	o := c.overload
	if o.OperandTrait != 0 && !args[0].Type().HasTrait(o.OperandTrait) {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	switch {
	case len(args) == 1 && o.Unary != nil:
		return o.Unary(args[0])
	case len(args) == 2 && o.Binary != nil:
		return o.Binary(args[0], args[1])
	case o.Function != nil:
		return o.Function(args...)
	}
	return types.MaybeNoSuchOverloadErr(args[0])
}

// length is the size of a string, list or map.
func length(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	return 1
}

// deep is about the size of a value in bytes, counting what it has many times as often.
// It gives up above enough.
func deep(v ref.Val, enough uint64) (n uint64) {
	switch v := v.(type) {
	case *listVal:
		return uint64(len(v.v.Raw()))
	case *mapVal:
		return uint64(len(v.v.Raw()))
	case types.String, types.Bytes:
		return elementBytes + length(v)
	case traits.Mapper:
		for it := v.Iterator(); n <= enough && it.HasNext() == types.True; {
			key := it.Next()
			n += deep(key, enough) + deep(v.Get(key), enough-min(n, enough))
		}
		return n
	case traits.Lister:
		for it := v.Iterator(); n <= enough && it.HasNext() == types.True; {
			n += deep(it.Next(), enough-min(n, enough))
		}
		return n
	}
	return elementBytes
}

func guardCopy(args []ref.Val) (alloc, work uint64) {
	switch args[0].(type) {
	case types.String, types.Bytes:
		return length(args[0]), 0
	case traits.Lister:
		return length(args[0]) * elementBytes, 0
	}
	return 0, 0
}

func guardAdd(args []ref.Val) (alloc, work uint64) {
	switch args[0].(type) {
	case types.Int, types.Uint, types.Double:
		return 0, 0
	}
	alloc, _ = guardCopy(args[1:])
	if _, ok := args[0].(traits.MutableLister); ok {
		return alloc, 0 // what map and filter collect in: it grows in place
	}
	first, _ := guardCopy(args[:1])
	return first + alloc, 0
}

// compared is what comparing two values takes, if that can be more than the documents'
// size: it cannot for values of a document.
func compared(a, b ref.Val) uint64 {
	const enough = maxWork
	if !container(a) || !container(b) || length(a) != length(b) {
		return 0
	}
	return min(deep(a, enough), deep(b, enough))
}

func container(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}

func guardEqual(args []ref.Val) (alloc, work uint64) { return 0, compared(args[0], args[1]) }

func guardIn(args []ref.Val) (alloc, work uint64) {
	list, ok := args[1].(traits.Lister)
	if !ok {
		return 0, 0
	}
	if !container(args[0]) {
		return 0, length(list)
	}
	return 0, deep(list, maxWork)
}

func guardReplace(args []ref.Val) (alloc, work uint64) {
	s, ok1 := args[0].(types.String)
	before, ok2 := args[1].(types.String)
	after, ok3 := args[2].(types.String)
	if !ok1 || !ok2 || !ok3 {
		return 0, 0
	}
	n := uint64(strings.Count(string(s), string(before)))
	if len(args) > 3 {
		if most, ok := args[3].(types.Int); ok && most >= 0 {
			n = min(n, uint64(most))
		}
	}
	return uint64(len(s)) + n*uint64(len(after)), 0
}

func guardJoin(args []ref.Val) (alloc, work uint64) {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return 0, 0
	}
	alloc = deep(list, maxAllocBytes)
	if len(args) > 1 {
		alloc += length(list) * length(args[1])
	}
	return alloc, 0
}

// guardFormat: a clause makes at most some 20 bytes of a number, and two of a byte.
func guardFormat(args []ref.Val) (alloc, work uint64) {
	return length(args[0]) + 2*deep(args[1], maxAllocBytes), 0
}

func guardSplit(args []ref.Val) (alloc, work uint64) {
	s, ok := args[0].(types.String)
	if !ok {
		return 0, 0
	}
	sep, ok := args[1].(types.String)
	if !ok {
		return 0, 0
	}
	return uint64(strings.Count(string(s), string(sep))+1) * elementBytes, 0
}

// maxRepeat is what regexp allows as a repetition, nested ones multiplied.
const maxRepeat = 1000

// guardRegex bounds the time of RE2, which is text by states of the expression.
func guardRegex(args []ref.Val) (alloc, work uint64) {
	s, ok1 := args[0].(types.String)
	pattern, ok2 := args[1].(types.String)
	if !ok1 || !ok2 {
		return 0, 0
	}
	states := uint64(len(pattern))
	if strings.Contains(string(pattern), "{") {
		states *= maxRepeat
	}
	return 0, states / 16 * uint64(utf8.RuneCountInString(string(s)))
}

func guardRange(args []ref.Val) (alloc, work uint64) {
	n, ok := args[0].(types.Int)
	if !ok || n < 0 {
		return 0, 0
	}
	return min(uint64(n), 1<<32) * elementBytes, 0
}

func guardFlatten(args []ref.Val) (alloc, work uint64) {
	depth := int64(1)
	if len(args) > 1 {
		n, _ := args[1].(types.Int)
		depth = int64(n)
	}
	return flattened(args[0], depth, maxAllocBytes/elementBytes+1) * elementBytes, 0
}

// flattened is how many elements a list has when it is flattened.
func flattened(v ref.Val, depth int64, enough uint64) (n uint64) {
	list, ok := v.(traits.Lister)
	if !ok {
		return 1
	}
	if depth < 0 {
		return 1
	}
	for it := list.Iterator(); n <= enough && it.HasNext() == types.True; {
		n += flattened(it.Next(), depth-1, enough-min(n, enough))
	}
	return n
}

func guardDistinct(args []ref.Val) (alloc, work uint64) {
	n := length(args[0])
	return n * elementBytes, mul(n, n)
}

func guardPairs(args []ref.Val) (alloc, work uint64) { return 0, mul(length(args[0]), length(args[1])) }

// mul multiplies without overflow.
func mul(a, b uint64) uint64 { return min(a, 1<<31) * min(b, 1<<31) }
