package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// decorateAlternatives makes a.or(b) and a.orValue(b) look at b only where a has no value, as celgo.OptionalTypes does: a
// program that is planned without package celgo does not get the decorators of its libraries.
func decorateAlternatives(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	unwrap := false
	switch call.OverloadID() {
	case "optional_or_optional":
	case "optional_orValue_value":
		unwrap = true
	case "":
		switch call.Function() {
		case "or":
		case "orValue":
			unwrap = true
		default:
			return i, nil
		}
	default:
		return i, nil
	}
	return &alternatives{id: call.ID(), optional: call.Args()[0], other: call.Args()[1], unwrap: unwrap}, nil
}

// alternatives is an optional, or another value where it has none. It is no call: neither costs anything.
type alternatives struct {
	id              int64
	optional, other interpreter.InterpretableV2
	// unwrap gives the value of the optional, not the optional.
	unwrap bool
}

// ID implements interpreter.Interpretable.
func (a *alternatives) ID() int64 { return a.id }

// Exec implements interpreter.InterpretableV2.
func (a *alternatives) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	switch v := a.optional.Exec(frame).(type) {
	case *types.Err, *types.Unknown:
		return v
	case *types.Optional:
		switch {
		case !v.HasValue():
			return a.other.Exec(frame)
		case a.unwrap:
			return v.GetValue()
		default:
			return v
		}
	}
	return types.NoSuchOverloadErr()
}

// Eval implements interpreter.Interpretable.
func (a *alternatives) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}
