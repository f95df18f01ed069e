package cel

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/library"
)

// meteredProgram evaluates an expression and counts what it costs. It takes the place of a celgo.Program, which lets
// nobody else count; see meter for why we do.
type meteredProgram struct {
	plan   interpreter.InterpretableV2
	meters sync.Pool // of *meter
}

// newDispatcher returns what finds the functions of env.
func newDispatcher(env *celgo.Env) (interpreter.Dispatcher, error) {
	d := interpreter.NewDispatcher()
	for name, decl := range env.Functions() {
		bindings, err := decl.Bindings()
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", name, err)
		}
		if err := d.Add(bindings...); err != nil {
			return nil, fmt.Errorf("function %s: %w", name, err)
		}
	}
	return d, nil
}

// newMetered plans an expression as env, that of the engine's functions, would, with all optimizations of upstream's
// environment: they are part of the cost.
func (e *Engine) newMetered(env *celgo.Env, checked *celgo.Ast) (*meteredProgram, error) {
	attributes := interpreter.NewAttributeFactory(env.Container, env.CELTypeAdapter(), env.CELTypeProvider())
	conditional := reflect.TypeOf(attributes.ConditionalAttribute(0, nil, nil, nil))
	watches := newWatchPlan(checked.NativeRep().Expr(), conditional)
	plan, err := interpreter.NewInterpreter(e.dispatcher, env.Container, env.CELTypeProvider(), env.CELTypeAdapter(), attributes).
		NewInterpretable(checked.NativeRep(),
			interpreter.CustomDecoratorV2(decorateAlternatives),
			interpreter.CustomDecoratorV2(e.guardCalls),
			interpreter.InterruptableEval(),
			interpreter.Optimize(),
			interpreter.CompileRegexConstants(library.FindRegexOptimization, library.FindAllRegexOptimization, interpreter.MatchesRegexOptimization),
			interpreter.CustomDecoratorV2(watches.decorate))
	if err != nil {
		return nil, err
	}
	limit, ids := e.config.ExpressionLimit, watches.maxID+1
	return &meteredProgram{plan: plan, meters: sync.Pool{New: func() any { return &meter{limit: limit, top: make([]int32, ids)} }}}, nil
}

// eval evaluates the expression for a run. The error is an interpreter.EvalCancelledError where it became too expensive,
// and an interpreter.InterruptError where ctx was done.
func (p *meteredProgram) eval(ctx context.Context, r *run) (val ref.Val, used uint64, err error) {
	m, _ := p.meters.Get().(*meter)
	outer := r.meter
	r.meter = m
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case interpreter.EvalCancelledError:
			val, err = nil, cause
		default:
			val, err = nil, fmt.Errorf("internal error: %v", cause)
		}
		used, r.steps, r.meter = m.cost, r.steps+m.steps, outer
		m.reset()
		p.meters.Put(m)
	}()
	frame, err := interpreter.NewExecutionFrame(r)
	if err != nil {
		return nil, 0, err
	}
	defer frame.Close()
	if err := frame.SetContext(ctx, checkFrequency); err != nil {
		return nil, 0, err
	}
	val = p.plan.Exec(frame)
	if failed, ok := val.(*types.Err); ok {
		return val, 0, failed
	}
	return val, 0, nil
}
