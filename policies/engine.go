package policies

import (
	"context"

	"weir.dev/weir/abi/document"
)

// Engine compiles expressions of one language. It may be used concurrently.
type Engine interface {
	// Name of the language, in errors and metric labels: cel.
	Name() string
	// Compile checks all of src and prepares it. The error is [Issues] when src is at
	// fault, and then it lists everything that is wrong.
	Compile(src *Source) (Program, error)
}

// Source is a set of expressions over the same documents.
type Source struct {
	// Inputs are the names of the documents that expressions may use, such as object.
	Inputs []string
	// Authorizer lets expressions ask the variable authorizer, which AuthorizerBinder gives its value.
	Authorizer bool
	// Admission says that the inputs request and namespaceObject are an AdmissionRequest of admission.k8s.io/v1 and a
	// Namespace: a field that they cannot have is an issue.
	Admission bool
	// Variables are named expressions, each of which may use those before it as
	// variables.<name>. A run evaluates one at most once, and only when it is used.
	Variables []Variable
	// Expressions are evaluated by their index.
	Expressions []Expression
}

// Variable is an expression with a name.
type Variable struct {
	Name string
	Expression
}

// Expression is one text to compile.
type Expression struct {
	// Path says where the text stands, for issues:
	// spec.layers[1].cel.validations[0].expression.
	Path string
	Text string
	// Want is the type that it must have. Variables may have any.
	Want Type
	// Item declares item, items, index and path, which [Locals] give.
	Item bool
}

// Type is what an expression evaluates to.
type Type uint8

// The types.
const (
	// Any is any value that JSON can express.
	Any Type = iota
	Bool
	String
	// ApplyConfiguration is Object{…}: the fields to merge into an object.
	ApplyConfiguration
	// StringOrNull is a text, or null for none; it has to be known before it is run that it is no number, list or map.
	StringOrNull
	// JSONPatch is a list of JSONPatch{op, path, from, value}: an RFC 6902 patch.
	JSONPatch
)

// Program is compiled, immutable, and may be used concurrently.
type Program interface {
	// Begin starts a run over no documents yet.
	Begin() Run
	// Mentions reports whether expression i uses the input, itself or through variables.
	Mentions(i int, input string) bool
}

// Run evaluates expressions over documents, within one budget. One goroutine uses it.
type Run interface {
	// Bind gives the input of that index in Source.Inputs its value; an Absent value is
	// null, as is an input that was never bound. It forgets the values of variables.
	Bind(input int, v document.Value)
	// Eval evaluates expression i. at is nil for one without Item. The error is an
	// *[EvalError], a *[CostError], or wraps that of ctx.
	Eval(ctx context.Context, i int, at *Locals) (Verdict, error)
	// Cost of all evaluations so far.
	Cost() Cost
}

// Releaser is a Run that can be used again for another.
type Releaser interface {
	// Release ends a run. Neither it nor what it was bound to may be used from then on; verdicts may.
	Release()
}

// release ends a run, where there is anything to end.
func release(r Run) {
	if r, ok := r.(Releaser); ok {
		r.Release()
	}
}

// Continuer is a Program whose runs need not begin from nothing.
type Continuer interface {
	// Continue makes a run that has ended, of any program, one of this program, as Begin would, but for what it costs to bind
	// the same documents again: an input that is not bound again must not be mentioned. It reports whether it has.
	Continue(ended Run) bool
}

// Runs keeps the run of one policy for the next that judges the same request. The zero value has none yet; a nil one keeps
// none. One goroutine uses it, and releases it.
type Runs struct{ ended Run }

// begin is Begin of a program.
func (x *Runs) begin(p Program) Run {
	if x == nil || x.ended == nil {
		return p.Begin()
	}
	run := x.ended
	x.ended = nil
	if c, ok := p.(Continuer); ok && c.Continue(run) {
		return run
	}
	release(run)
	return p.Begin()
}

// end takes a run that has ended.
func (x *Runs) end(r Run) {
	if x == nil || x.ended != nil {
		release(r)
		return
	}
	x.ended = r
}

// Release ends what is kept. The documents of the request may not be used from then on.
func (x *Runs) Release() {
	if x.ended != nil {
		release(x.ended)
		x.ended = nil
	}
}

// Locals are the variables of an expression that is evaluated for one of many items.
type Locals struct {
	Item  document.Value // item
	Items document.Value // items: the list that item is an element of, or null
	Index int64          // index: of item in items, or -1
	Path  string         // path: of item, as a field path
}

// Verdict is the value of an expression. The member for the expression's type is set.
type Verdict struct {
	// Bool of type Bool.
	Bool bool
	// String of type String.
	String string
	// Value of the other types.
	Value *document.Document
}
