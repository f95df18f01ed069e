package cel

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
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

// planner plans checked expressions. A celgo.Program would hold an environment and a dispatcher of its own, some 60 KB of
// pointers that each garbage collection follows: planned here, all programs share those of the engine.
type planner struct {
	engine *Engine
	types  types.Provider // of the engine's functions, and of variables
}

// plan plans an expression as the environment of the engine's functions would.
func (p *planner) plan(checked *ast.AST, attributes interpreter.AttributeFactory, options ...interpreter.PlannerOption) (interpreter.InterpretableV2, error) {
	env := p.engine.unmetered
	return interpreter.NewInterpreter(p.engine.dispatcher, env.Container, p.types, env.CELTypeAdapter(), attributes).NewInterpretable(checked, options...)
}

func (p *planner) attributes() interpreter.AttributeFactory {
	env := p.engine.unmetered
	return interpreter.NewAttributeFactory(env.Container, env.CELTypeAdapter(), p.types)
}

// plain plans an expression that is not metered. fields may be nil.
func (p *planner) plain(checked *ast.AST, fields interpreter.InterpretableDecoratorV2) (interpreter.InterpretableV2, error) {
	options := []interpreter.PlannerOption{interpreter.CustomDecoratorV2(decorateAlternatives), interpreter.CustomDecoratorV2(p.engine.guardCalls)}
	if fields != nil {
		options = append(options, interpreter.CustomDecoratorV2(fields), interpreter.CustomDecoratorV2(comparisons))
	}
	return p.plan(checked, p.attributes(), append(options, interpreter.Optimize(), constantRegexes())...)
}

// metered plans an expression with all optimizations of upstream's environment: they are part of the cost.
func (p *planner) metered(checked *ast.AST) (*meteredProgram, error) {
	attributes := p.attributes()
	conditional := reflect.TypeOf(attributes.ConditionalAttribute(0, nil, nil, nil))
	watches := newWatchPlan(checked.Expr(), conditional)
	plan, err := p.plan(checked, attributes,
		interpreter.CustomDecoratorV2(decorateAlternatives),
		interpreter.CustomDecoratorV2(p.engine.guardCalls),
		interpreter.InterruptableEval(),
		interpreter.Optimize(),
		constantRegexes(),
		interpreter.CustomDecoratorV2(watches.decorate))
	if err != nil {
		return nil, err
	}
	limit, ids := p.engine.config.ExpressionLimit, watches.maxID+1
	return &meteredProgram{plan: plan, meters: sync.Pool{New: func() any { return &meter{limit: limit, top: make([]int32, ids)} }}}, nil
}

func constantRegexes() interpreter.PlannerOption {
	return interpreter.CompileRegexConstants(library.FindRegexOptimization, library.FindAllRegexOptimization, interpreter.MatchesRegexOptimization)
}

// eval evaluates the expression for a run. The error is an interpreter.EvalCancelledError where it became too expensive,
// and an interpreter.InterruptError where ctx was done.
func (p *meteredProgram) eval(ctx context.Context, r *run) (val ref.Val, used uint64, err error) {
	m, _ := p.meters.Get().(*meter)
	outer := r.meter
	r.meter = m
	defer func() {
		if cause := recover(); cause != nil {
			val, err = nil, panicError(cause)
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
