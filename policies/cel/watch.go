package cel

import (
	"reflect"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// step is what a meter makes of one step of a plan.
type step uint8

const (
	stepFree step = iota
	stepSelect
	stepConditional
	// stepTerms are && and ||, and comprehensions: they cost what their parts do.
	stepTerms
	stepQualifier
	stepCall
	stepConstructor
)

// watch has a meter observe a step.
type watch struct {
	step step
	plan *watchPlan
	// terms are the ids of the parts that are used up, of stepTerms.
	terms       []int64
	attribute   interpreter.InterpretableAttribute
	presence    bool // of the attribute alone: has()
	call        interpreter.InterpretableCall
	constructor interpreter.InterpretableConstructor
}

// observe tells the meter of the evaluation that is under way.
func (w *watch) observe(vars interpreter.Activation, id int64, val ref.Val) {
	if r := runOf(vars); r != nil && r.meter != nil {
		r.meter.observe(w, id, val)
	}
}

// branch are the ids of the parts of a conditional.
type branch struct{ condition, truthy, falsy int64 }

// watchPlan says of which parts the expressions of a text are made, by their ids. A step of a plan has the id of its
// expression, and does not say what it is made of.
type watchPlan struct {
	terms    map[int64][]int64
	presence map[int64]bool
	branches map[int64]branch
	maxID    int64
	// conditional is the type of an attribute with two branches.
	conditional reflect.Type
}

func newWatchPlan(root ast.Expr, conditional reflect.Type) *watchPlan {
	p := &watchPlan{terms: map[int64][]int64{}, presence: map[int64]bool{}, branches: map[int64]branch{}, conditional: conditional}
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(x ast.Expr) {
		p.maxID = max(p.maxID, x.ID())
		switch x.Kind() {
		case ast.CallKind:
			args := x.AsCall().Args()
			switch x.AsCall().FunctionName() {
			case operators.LogicalAnd, operators.LogicalOr:
				for _, a := range args {
					p.terms[x.ID()] = append(p.terms[x.ID()], a.ID())
				}
			case operators.Conditional:
				p.branches[x.ID()] = branch{condition: args[0].ID(), truthy: args[1].ID(), falsy: args[2].ID()}
			}
		case ast.ComprehensionKind:
			p.terms[x.ID()] = []int64{x.AsComprehension().IterRange().ID()}
		case ast.SelectKind:
			p.presence[x.ID()] = x.AsSelect().IsTestOnly()
		default:
		}
		// What is selected from a conditional is selected in each of its branches, and has the id of the selection there.
		if c := conditionalBelow(x); c != nil {
			p.branches[x.ID()] = branch{condition: c.AsCall().Args()[0].ID(), truthy: x.ID(), falsy: x.ID()}
		}
	}))
	return p
}

// conditionalBelow returns the conditional that fields or elements are selected from, or nil.
func conditionalBelow(x ast.Expr) ast.Expr {
	for selected := false; ; selected = true {
		switch x.Kind() {
		case ast.SelectKind:
			x = x.AsSelect().Operand()
			continue
		case ast.CallKind:
			call := x.AsCall()
			switch call.FunctionName() {
			case operators.Index, operators.OptIndex, operators.OptSelect:
				x = call.Args()[0]
				continue
			case operators.Conditional:
				if selected {
					return x
				}
			}
		default:
		}
		return nil
	}
}

// decorate wraps a step so that a meter observes it, as interpreter.CostObserver does. It has to be the last decorator.
func (p *watchPlan) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	w := watch{plan: p}
	switch i := i.(type) {
	case *watched, *watchedAttribute, *watchedConst:
		return i, nil
	case interpreter.InterpretableConst:
		return &watchedConst{InterpretableConst: i, watch: w}, nil
	case interpreter.InterpretableAttribute:
		w.step, w.attribute, w.presence = stepSelect, i, p.presence[i.ID()] && isPresenceTest(i)
		if reflect.TypeOf(i.Attr()) == p.conditional {
			w.step = stepConditional
		}
		return &watchedAttribute{InterpretableAttribute: i, watch: w}, nil
	case interpreter.InterpretableCall:
		w.step, w.call = stepCall, i
	case interpreter.InterpretableConstructor:
		w.step, w.constructor = stepConstructor, i
	default:
		if terms, ok := p.terms[i.ID()]; ok {
			w.step, w.terms = stepTerms, terms
		}
	}
	return &watched{InterpretableV2: i, watch: w}, nil
}

// isPresenceTest reports whether an attribute with the id of a has() is it, and not what it looks into: that is a watched
// attribute inside it.
func isPresenceTest(i interpreter.InterpretableAttribute) bool { return i.ID() == i.Attr().ID() }

// watched implements interpreter.InterpretableV2.
type watched struct {
	interpreter.InterpretableV2
	watch watch
}

// Exec implements interpreter.InterpretableV2.
func (w *watched) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	val := w.InterpretableV2.Exec(frame)
	w.watch.observe(frame, w.ID(), val)
	return val
}

// Eval implements interpreter.Interpretable.
func (w *watched) Eval(vars interpreter.Activation) ref.Val { return w.Exec(interpreter.AsFrame(vars)) }

// watchedConst implements interpreter.InterpretableConst.
type watchedConst struct {
	interpreter.InterpretableConst
	watch watch
}

// Exec implements interpreter.InterpretableV2.
func (w *watchedConst) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	val := w.Value()
	w.watch.observe(frame, w.ID(), val)
	return val
}

// Eval implements interpreter.Interpretable.
func (w *watchedConst) Eval(vars interpreter.Activation) ref.Val {
	return w.Exec(interpreter.AsFrame(vars))
}

// watchedAttribute implements interpreter.InterpretableAttribute.
type watchedAttribute struct {
	interpreter.InterpretableAttribute
	watch watch
}

// Exec implements interpreter.InterpretableV2.
func (w *watchedAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	val := w.InterpretableAttribute.Exec(frame)
	w.watch.observe(frame, w.ID(), val)
	return val
}

// Eval implements interpreter.Interpretable.
func (w *watchedAttribute) Eval(vars interpreter.Activation) ref.Val {
	return w.Exec(interpreter.AsFrame(vars))
}

// AddQualifier implements interpreter.InterpretableAttribute: what is selected is observed too.
func (w *watchedAttribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	observe := selection{watch: watch{plan: w.watch.plan, step: stepQualifier}, adapter: w.Adapter()}
	switch qualifier := q.(type) {
	case interpreter.ConstantQualifier:
		q = &watchedConstQualifier{ConstantQualifier: qualifier, selection: observe}
	case *watchedAttribute: // it is observed where it is used to select
		observe.watch = qualifier.watch
		q = &watchedAttributeQualifier{Attribute: qualifier.InterpretableAttribute, selection: observe}
	case interpreter.Attribute:
		q = &watchedAttributeQualifier{Attribute: qualifier, selection: observe}
	default:
		q = &watchedQualifier{Qualifier: qualifier, selection: observe}
	}
	_, err := w.InterpretableAttribute.AddQualifier(q)
	return w, err
}

// selection observes what a qualifier selects.
type selection struct {
	watch   watch
	adapter types.Adapter
}

func (s *selection) selected(vars interpreter.Activation, id int64, out any, err error) (any, error) {
	var val ref.Val
	if err != nil {
		val = types.LabelErrNode(id, types.WrapErr(err))
	} else {
		val = s.adapter.NativeToValue(out)
	}
	s.watch.observe(vars, id, val)
	return out, err
}

func (s *selection) selectedIfPresent(vars interpreter.Activation, id int64, presenceOnly bool, out any, present bool, err error) (any, bool, error) {
	if !present && !presenceOnly {
		return out, present, err
	}
	var val ref.Val
	switch {
	case err != nil:
		val = types.LabelErrNode(id, types.WrapErr(err))
	case out != nil:
		val = s.adapter.NativeToValue(out)
	case presenceOnly:
		val = types.Bool(present)
	}
	s.watch.observe(vars, id, val)
	return out, present, err
}

// watchedConstQualifier implements interpreter.ConstantQualifier.
type watchedConstQualifier struct {
	interpreter.ConstantQualifier
	selection
}

// Qualify implements interpreter.Qualifier.
func (q *watchedConstQualifier) Qualify(vars interpreter.Activation, obj any) (any, error) {
	out, err := q.ConstantQualifier.Qualify(vars, obj)
	return q.selected(vars, q.ID(), out, err)
}

// QualifyIfPresent implements interpreter.Qualifier.
func (q *watchedConstQualifier) QualifyIfPresent(vars interpreter.Activation, obj any, presenceOnly bool) (any, bool, error) {
	out, present, err := q.ConstantQualifier.QualifyIfPresent(vars, obj, presenceOnly)
	return q.selectedIfPresent(vars, q.ID(), presenceOnly, out, present, err)
}

// watchedAttributeQualifier implements interpreter.Attribute.
type watchedAttributeQualifier struct {
	interpreter.Attribute
	selection
}

// Qualify implements interpreter.Qualifier.
func (q *watchedAttributeQualifier) Qualify(vars interpreter.Activation, obj any) (any, error) {
	out, err := q.Attribute.Qualify(vars, obj)
	return q.selected(vars, q.ID(), out, err)
}

// QualifyIfPresent implements interpreter.Qualifier.
func (q *watchedAttributeQualifier) QualifyIfPresent(vars interpreter.Activation, obj any, presenceOnly bool) (any, bool, error) {
	out, present, err := q.Attribute.QualifyIfPresent(vars, obj, presenceOnly)
	return q.selectedIfPresent(vars, q.ID(), presenceOnly, out, present, err)
}

// watchedQualifier implements interpreter.Qualifier.
type watchedQualifier struct {
	interpreter.Qualifier
	selection
}

// Qualify implements interpreter.Qualifier.
func (q *watchedQualifier) Qualify(vars interpreter.Activation, obj any) (any, error) {
	out, err := q.Qualifier.Qualify(vars, obj)
	return q.selected(vars, q.ID(), out, err)
}

// QualifyIfPresent implements interpreter.Qualifier.
func (q *watchedQualifier) QualifyIfPresent(vars interpreter.Activation, obj any, presenceOnly bool) (any, bool, error) {
	out, present, err := q.Qualifier.QualifyIfPresent(vars, obj, presenceOnly)
	return q.selectedIfPresent(vars, q.ID(), presenceOnly, out, present, err)
}
