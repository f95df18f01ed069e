package cel

import (
	"cmp"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// relation is for which orders of two values a comparison is true.
type relation struct{ less, equal, greater bool }

// relations are the comparisons by their functions. They are not changed.
var relations = map[string]relation{
	operators.Equals: {equal: true}, operators.NotEquals: {less: true, greater: true},
	operators.Less: {less: true}, operators.LessEquals: {less: true, equal: true},
	operators.Greater: {greater: true}, operators.GreaterEquals: {equal: true, greater: true},
}

// comparisons decorates the steps of a program so that a path of fields is compared with a constant in one step, as rules
// of policies mostly do. It comes after fieldsOf and guarded.
func comparisons(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	relation, ok := relations[call.Function()]
	path, isPath := call.Args()[0].(*fieldPath)
	constant, isConstant := call.Args()[1].(interpreter.InterpretableConst)
	if !ok || !isPath || !isConstant || path.names == nil {
		return i, nil
	}
	switch constant.Value().(type) {
	case types.String, types.Int:
		c := &comparison{path: path, key: path.fieldKey, relation: relation, InterpretableCall: call}
		c.text, c.isText = constant.Value().(types.String)
		c.number, _ = constant.Value().(types.Int)
		return c, nil
	}
	return i, nil
}

// comparison compares a path of fields with a text or a whole number. It is what cel-go planned in all but Exec, and there
// too where the path does not lead to a value of the same type.
type comparison struct {
	// What most comparisons need lies together.
	key      fieldKey // of path
	relation relation
	isText   bool
	number   types.Int
	text     types.String
	path     *fieldPath
	interpreter.InterpretableCall
}

// Eval implements interpreter.Interpretable.
func (c *comparison) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (c *comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	r, ok := frame.Activation.(*run)
	if !ok { // within a comprehension
		return c.InterpretableCall.Exec(frame)
	}
	val := r.known(c.key)
	if val == nil {
		val = r.fieldOf(c.path)
	}
	order := 0
	switch val := val.(type) {
	case types.String:
		switch {
		case !c.isText:
			return c.InterpretableCall.Exec(frame)
		case c.relation.less == c.relation.greater: // whether they are equal is mostly told by their lengths
			return types.Bool((val == c.text) == c.relation.equal)
		}
		order = strings.Compare(string(val), string(c.text))
	case types.Int:
		if c.isText {
			return c.InterpretableCall.Exec(frame)
		}
		order = cmp.Compare(val, c.number)
	default:
		return c.InterpretableCall.Exec(frame)
	}
	return types.Bool(order < 0 && c.relation.less || order == 0 && c.relation.equal || order > 0 && c.relation.greater)
}
