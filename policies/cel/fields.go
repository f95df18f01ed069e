package cel

import (
	"fmt"
	"hash/fnv"
	"slices"
	"unique"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"weir.dev/weir/abi/document"
)

// fieldsOf decorates the steps of a program so that a path of fields from an input, such as object.spec.replicas, is read
// from the document in one step. cel-go takes a step for each field and makes a value of each object on the way, which
// takes longer than all else in most rules of policies. It is nil where a comprehension has a variable with the name of
// an input.
func (c *compiler) fieldsOf(root *ast.AST) interpreter.InterpretableDecoratorV2 {
	shadowed := false
	ast.PreOrderVisit(root.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.ComprehensionKind {
			f := x.AsComprehension()
			for _, name := range []string{f.IterVar(), f.IterVar2(), f.AccuVar()} {
				shadowed = shadowed || slices.Contains(c.src.Inputs, name)
			}
		}
	}))
	if shadowed {
		return nil
	}
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		plan, ok := i.(interpreter.InterpretableAttribute)
		if !ok {
			return i, nil
		}
		attribute, ok := plan.Attr().(interpreter.NamespacedAttribute)
		if !ok || len(attribute.Qualifiers()) > 0 || len(attribute.CandidateVariableNames()) != 1 {
			return i, nil // the qualifiers of a path come after its variable
		}
		name := attribute.CandidateVariableNames()[0]
		input := slices.Index(c.src.Inputs, name)
		if input < 0 {
			return i, nil
		}
		return &fieldPath{InterpretableAttribute: plan, fieldKey: fieldKey{input: int32(input)}}, nil
	}
}

// fieldPath is an attribute that is a path of fields from an input. It is what cel-go planned in all but Exec, and there
// too when the path does not lead to a value: cel-go says why.
type fieldPath struct {
	fieldKey
	names []string // nil: no such path
	interpreter.InterpretableAttribute
	other bool // a qualifier is no field
}

// fieldKey is what a path is known by.
type fieldKey struct {
	path  unique.Handle[string] // of names, in input
	input int32
	slot  int32
}

// fieldSlots is how many paths a run remembers: a power of 2.
const fieldSlots = 16

// knownField is the value of a path. Policies of one request, and rules of one policy, often ask for the same.
type knownField struct {
	path unique.Handle[string]
	root document.Value // of the input
	val  ref.Val
}

// AddQualifier implements interpreter.InterpretableAttribute. The planner calls it for each qualifier.
func (p *fieldPath) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	name, ok := fieldName(q)
	if p.other = p.other || !ok; p.other {
		p.names = nil
	} else {
		p.names = append(p.names, name)
		text := fmt.Sprintf("%d%q", p.input, p.names)
		h := fnv.New32a()
		_, _ = h.Write([]byte(text))
		p.path, p.slot = unique.Make(text), int32(h.Sum32()%fieldSlots)
	}
	return p.InterpretableAttribute.AddQualifier(q)
}

// fieldName is the field that a qualifier selects, where that is all it does.
func fieldName(q interpreter.Qualifier) (string, bool) {
	constant, ok := q.(interpreter.ConstantQualifier)
	if !ok || q.IsOptional() {
		return "", false
	}
	name, ok := constant.Value().(types.String)
	return string(name), ok
}

// Eval implements interpreter.Interpretable.
func (p *fieldPath) Eval(vars interpreter.Activation) ref.Val {
	return p.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (p *fieldPath) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if p.names != nil {
		r, ok := frame.Activation.(*run)
		if !ok { // within a comprehension
			r = runOf(frame)
		}
		if r != nil {
			if val := r.fieldOf(p); val != nil {
				return val
			}
		}
	}
	return p.InterpretableAttribute.Exec(frame)
}

// fieldOf returns the value that a path leads to; nil where it leads nowhere.
func (r *run) fieldOf(p *fieldPath) ref.Val {
	if val := r.known(p.fieldKey); val != nil {
		return val
	}
	v := r.field(int(p.input), p.names)
	if !v.Exists() {
		return nil
	}
	known := &r.fields[p.slot]
	*known = knownField{p.path, r.inputs[p.input].object.v, r.wide.refVal(v)}
	return known.val
}

// known returns the value of a path that was read before, or nil.
func (r *run) known(k fieldKey) ref.Val {
	known := &r.fields[k.slot]
	if known.path == k.path && known.root == r.inputs[k.input].object.v {
		return known.val
	}
	return nil
}

// field returns what a path of fields leads to from an input; Absent where it leads nowhere.
func (r *run) field(input int, names []string) document.Value {
	v := r.inputs[input].object.v
	for _, name := range names {
		if v.Kind() != document.Object {
			return document.Value{}
		}
		v = r.wide.member(v, name)
	}
	return v
}
