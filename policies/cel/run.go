package cel

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// run implements policies.Run and is the activation of its programs.
type run struct {
	program    *program
	inputs     []input
	few        [fewInputs]input // has inputs, if they are not more
	variables  []variable
	authorizer *Authorizer
	bytes      uint64 // of all inputs that the program mentions, and one; 0: not yet asked for
	widest     uint64 // as bytes, of the largest value
	at         *policies.Locals
	ctx        context.Context //nolint:containedctx // of the evaluation that is under way: variables are evaluated from within it
	cost       policies.Cost
	allocated  uint64 // by guarded functions, bytes
	worked     uint64 // by guarded functions; see maxWork
	stopped    error  // why an evaluation within the one under way was stopped
	meter      *meter // of the evaluation that is under way, where it is metered
	steps      uint64 // that meters took
	wide       wideValues
	frame      interpreter.ExecutionFrame // of what is not metered: it has no state
	fields     [fieldSlots]knownField
}

// runVariable is the name by which the steps of a plan find their run. No expression can have or shadow it.
const runVariable = "@weir"

// runOf returns the run that an activation is of.
func runOf(vars interpreter.Activation) *run {
	v, _ := vars.ResolveName(runVariable)
	r, _ := v.(*run)
	return r
}

// fewInputs is how many a policy has.
const fewInputs = 5

type input struct {
	object mapVal  // what val is, of an object
	val    ref.Val // nil: null
	bytes  uint64
}

// variable is the value of a variable, once it is known.
type variable struct {
	val   ref.Val
	err   error
	state variableState
}

type variableState uint8

const (
	unknown variableState = iota
	evaluating
	known
)

// Bind implements policies.Run.
func (r *run) Bind(i int, v document.Value) {
	clear(r.variables)
	if r.program.mentioned&(1<<i) == 0 {
		return // nobody asks for it
	}
	in := &r.inputs[i]
	if in.object.v == v && in.object.wide != nil {
		return // by the run that this one goes on from
	}
	*in = input{object: mapVal{v, &r.wide}, bytes: uint64(len(v.Raw()))}
	if v.Kind() == document.Object {
		in.val = &in.object
	} else {
		in.val = r.wide.refVal(v)
	}
	r.bytes, r.widest = 0, 0
}

// Cost implements policies.Run.
func (r *run) Cost() policies.Cost { return r.cost }

// ResolveName implements interpreter.Activation.
func (r *run) ResolveName(name string) (any, bool) {
	if name == runVariable {
		return r, true
	}
	for i, n := range r.program.inputs {
		if n == name {
			if r.inputs[i].val == nil {
				return types.NullValue, true
			}
			return r.inputs[i].val, true
		}
	}
	switch name {
	case "variables":
		return r, true
	case authorizerVariable, requestResourceVariable:
		switch {
		case r.authorizer == nil:
			return types.NullValue, true
		case name == authorizerVariable:
			return r.authorizer.authorizer, true
		default:
			return r.authorizer.resource, true
		}
	case "item", "items", "index", "path":
		if r.at == nil {
			return nil, false
		}
		switch name {
		case "item":
			return r.wide.refVal(r.at.Item), true
		case "items":
			return r.wide.refVal(r.at.Items), true
		case "index":
			return types.Int(r.at.Index), true
		default:
			return types.String(r.at.Path), true
		}
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (*run) Parent() interpreter.Activation { return nil }

// variable gives the value of a variable.
func (r *run) variable(i int) (any, error) {
	v := &r.variables[i]
	switch v.state {
	case evaluating: // cannot be, since a variable sees only those before it
		return nil, errors.New("variable uses itself")
	case unknown:
		v.state = evaluating
		v.val, v.err = r.eval(r.ctx, r.program.variables[i])
		v.state = known
	case known:
	}
	if v.err != nil {
		return nil, variableFailed(r.program.names[i], v.err)
	}
	return v.val, nil
}

// variableError is that of a variable that cannot be evaluated, in upstream's words.
type variableError struct {
	name  string
	err   error
	depth int
}

// maxVariableDepth is how many variables an error names that each failed for the one before. Upstream names all.
const maxVariableDepth = 4

func variableFailed(name string, err error) error {
	var inner *variableError
	depth := 1
	if errors.As(err, &inner) {
		if depth = inner.depth + 1; depth > maxVariableDepth {
			return err
		}
	}
	return &variableError{name: name, err: err, depth: depth}
}

// Error implements error.
func (e *variableError) Error() string {
	return fmt.Sprintf("composited variable %q fails to evaluate: %v", e.name, e.err)
}

// Unwrap gives the error of the variable.
func (e *variableError) Unwrap() error { return e.err }

// Eval implements policies.Run.
func (r *run) Eval(ctx context.Context, i int, at *policies.Locals) (policies.Verdict, error) {
	r.ctx, r.at, r.stopped = ctx, at, nil
	x := &r.program.expressions[i]
	val, err := r.eval(ctx, x)
	r.ctx, r.at = nil, nil
	if err != nil {
		return policies.Verdict{}, err
	}
	verdict, err := toVerdict(x.want, val)
	if err != nil {
		return policies.Verdict{}, &policies.EvalError{Path: x.path, Text: x.text, Err: err}
	}
	return verdict, nil
}

func toVerdict(want policies.Type, val ref.Val) (v policies.Verdict, err error) {
	switch want {
	case policies.Bool:
		b, ok := val.(types.Bool)
		if !ok {
			return v, fmt.Errorf("value is of type %s, not bool", val.Type().TypeName())
		}
		v.Bool = bool(b)
	case policies.String:
		s, ok := val.(types.String)
		if !ok {
			return v, fmt.Errorf("value is of type %s, not string", val.Type().TypeName())
		}
		v.String = string(s)
	case policies.ApplyConfiguration:
		v.Value, err = applyConfiguration(val)
	case policies.JSONPatch:
		v.Value, err = jsonPatch(val)
	case policies.Any, policies.StringOrNull:
		v.Value, err = toDocument(val)
	}
	return v, err
}

// eval evaluates one text, unmetered where its bound allows that.
func (r *run) eval(ctx context.Context, x *expression) (ref.Val, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", x.path, context.Cause(ctx))
	}
	if x.plain != nil {
		if bound, ok := r.bound(x); ok && r.cost.Proven+bound <= r.program.config.RunLimit/2 {
			r.cost.Proven += bound
			val, err := r.exec(x.plain)
			return r.result(x, val, err)
		}
	}
	metered, err := x.metered()
	if err != nil {
		return nil, &policies.EvalError{Path: x.path, Text: x.text, Err: err}
	}
	if r.cost.Used > r.program.config.RunLimit {
		return nil, r.overRun(x)
	}
	val, used, err := metered.eval(ctx, r)
	r.cost.Used += used
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		r.stopped = &policies.CostError{Path: x.path, Text: x.text, Used: used, Limit: r.program.config.ExpressionLimit}
		return nil, r.stopped
	case errors.Is(err, interpreter.InterruptError{}):
		r.stopped = fmt.Errorf("%s: %w", x.path, context.Cause(ctx))
		return nil, r.stopped
	case r.cost.Used > r.program.config.RunLimit:
		return nil, r.overRun(x)
	}
	return r.result(x, val, err)
}

// exec evaluates an expression that is not metered.
func (r *run) exec(plan interpreter.InterpretableV2) (val ref.Val, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			val, err = nil, panicError(cause)
		}
	}()
	if r.frame.Activation == nil {
		r.frame.Activation = r
	}
	val = plan.Exec(&r.frame)
	if failed, ok := val.(*types.Err); ok {
		return val, failed
	}
	return val, nil
}

// panicError is the error of an evaluation that panicked, which is how the interpreter ends one too.
func panicError(cause any) error {
	if cancelled, ok := cause.(interpreter.EvalCancelledError); ok {
		return cancelled
	}
	return fmt.Errorf("internal error: %v", cause)
}

func (r *run) overRun(x *expression) error {
	r.stopped = &policies.CostError{Path: x.path, Text: x.text, Used: r.cost.Used, Limit: r.program.config.RunLimit, Run: true}
	return r.stopped
}

// result prefers the reason for which an inner evaluation was stopped over what the
// outer one made of it.
func (r *run) result(x *expression, val ref.Val, err error) (ref.Val, error) {
	switch {
	case r.stopped != nil:
		return nil, r.stopped
	case err != nil:
		return nil, &policies.EvalError{Path: x.path, Text: x.text, Err: err}
	case val == nil:
		return nil, &policies.EvalError{Path: x.path, Text: x.text, Err: errors.New("no value")}
	}
	return val, nil
}

// bound returns the bound on the cost of an expression, and whether it is within the limit.
// What is largest in the documents bounds it far better than their bytes do, and has to be
// looked for.
func (r *run) bound(x *expression) (uint64, bool) {
	limit := r.program.config.ExpressionLimit
	if r.bytes == 0 {
		r.bytes = 1
		for mask := r.program.mentioned; mask != 0; mask &= mask - 1 {
			r.bytes += r.inputs[bits.TrailingZeros64(mask)].bytes
		}
	}
	if b, ok := x.bound(r.bytes-1, limit); ok {
		return b, true
	}
	if r.widest == 0 {
		most := 0
		for mask := r.program.mentioned; mask != 0; mask &= mask - 1 {
			most = max(most, r.inputs[bits.TrailingZeros64(mask)].object.v.Widest())
		}
		r.widest = uint64(most) + 1
	}
	return x.bound(r.widest-1, limit)
}

// bound returns the bound on the cost for documents that hold nothing larger than size.
func (x *expression) bound(size, limit uint64) (uint64, bool) {
	for i, n := range sizeClasses {
		if size <= n {
			b := x.bounds[i]
			return b, b <= limit
		}
	}
	return 0, false
}

var _ celgo.Activation = (*run)(nil)
