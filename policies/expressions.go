package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"weir.dev/weir/abi/document"
)

// Engines compile the two sorts of expressions that a policy has.
type Engines struct {
	// Conditions compiles match conditions, which have a budget of their own.
	Conditions Engine
	// Rules compiles all others.
	Rules Engine
}

// MatchConditionLimit bounds all match conditions of a policy together.
const MatchConditionLimit = 2_500_000

// Expressions are a policy in the form of a ValidatingAdmissionPolicy. Texts are in the language of the engine.
type Expressions struct {
	// Path says where they stand, for issues: spec.
	Path             string
	MatchConditions  []NamedText
	Variables        []NamedText
	Validations      []ValidationText
	AuditAnnotations []NamedText
}

// NamedText is an expression with a name, or the key of an audit annotation.
type NamedText struct{ Name, Expression string }

// ValidationText is one validation: the expression is true for what is admitted.
type ValidationText struct {
	Expression string
	// MessageExpression gives the message of a denial, Message where it gives none.
	MessageExpression, Message string
	// Reason as in metav1.StatusReason; "" is Invalid.
	Reason string
}

// The inputs of a policy's expressions, by their index.
const (
	inputObject = iota
	inputOldObject
	inputRequest
	inputParams
	inputNamespace
	inputCount
)

// Inputs are the names of the documents that the expressions of a policy may use.
func Inputs() []string {
	return []string{"object", "oldObject", "request", "params", "namespaceObject"}
}

// BindReview gives the inputs of Inputs their values. What is not mentioned need not be there.
func BindReview(run Run, r *Review) {
	bind(run, r, &[inputCount]bool{true, true, true, true, true})
}

// bind gives those inputs their values that are mentioned.
func bind(run Run, r *Review, mentioned *[inputCount]bool) {
	for i, v := range [inputCount]*document.Value{&r.Object, &r.OldObject, &r.Request, &r.Params, &r.NamespaceObject} {
		if mentioned[i] {
			run.Bind(i, *v)
		}
	}
	if b, ok := run.(AuthorizerBinder); ok {
		b.BindAuthorizer(r.Authorizer)
	}
}

// AuthorizerBinder is a Run whose expressions can ask an authorizer.
type AuthorizerBinder interface {
	// BindAuthorizer gives the variable authorizer its value: one that the package of the engine made, or nil.
	BindAuthorizer(authorizer any)
}

// ExpressionJudge is a Judge of expressions. It is immutable.
type ExpressionJudge struct {
	conditions  *Conditions
	program     Program
	validations []compiledValidation
	annotations []compiledAnnotation
	mentions    [inputCount]bool
}

var _ Judge = (*ExpressionJudge)(nil)

type compiledValidation struct {
	expression, message int // message: -1 for none
	path, text          string
	fallback            string
	reason              string
}

type compiledAnnotation struct {
	expression int
	key, text  string
}

// CompileExpressions compiles a policy. The error is Issues when its texts are at fault, and then it has all.
func CompileExpressions(engines Engines, from *Expressions) (*ExpressionJudge, error) {
	j := &ExpressionJudge{}
	var issues Issues
	conditions, err := CompileConditions(engines.Conditions, from.Path+".matchConditions", from.MatchConditions)
	if err := collect(&issues, err); err != nil {
		return nil, err
	}
	j.conditions = conditions
	src := &Source{Inputs: Inputs(), Authorizer: true, Admission: true, Variables: VariablesOf(from.Path+".variables", from.Variables)}
	add := func(path, text string, want Type) int {
		src.Expressions = append(src.Expressions, Expression{Path: path, Text: text, Want: want})
		return len(src.Expressions) - 1
	}
	for i, v := range from.Validations {
		at := fmt.Sprintf("%s.validations[%d]", from.Path, i)
		c := compiledValidation{path: at + ".expression", text: strings.TrimSpace(v.Expression), reason: v.Reason, message: -1,
			fallback: strings.TrimSpace(v.Message), expression: add(at+".expression", v.Expression, Bool)}
		if v.MessageExpression != "" {
			c.message = add(at+".messageExpression", v.MessageExpression, String)
		}
		if c.fallback == "" {
			c.fallback = "failed expression: " + c.text
		}
		j.validations = append(j.validations, c)
	}
	for i, a := range from.AuditAnnotations {
		at := fmt.Sprintf("%s.auditAnnotations[%d].valueExpression", from.Path, i)
		j.annotations = append(j.annotations, compiledAnnotation{key: a.Name, text: a.Expression, expression: add(at, a.Expression, StringOrNull)})
	}
	program, err := engines.Rules.Compile(src)
	if err := collect(&issues, err); err != nil {
		return nil, err
	}
	if err := issues.Err(); err != nil {
		return nil, err
	}
	j.program = program
	for n, name := range Inputs() {
		j.mentions[n] = conditions.Mentions(name)
		for i := range src.Expressions {
			j.mentions[n] = j.mentions[n] || program.Mentions(i, name)
		}
	}
	return j, nil
}

// VariablesOf makes the variables of a Source.
func VariablesOf(path string, from []NamedText) []Variable {
	list := make([]Variable, 0, len(from))
	for i, v := range from {
		list = append(list, Variable{Name: v.Name, Expression: Expression{Path: fmt.Sprintf("%s[%d].expression", path, i), Text: v.Expression}})
	}
	return list
}

// collect adds issues to others. Another error is returned.
func collect(to *Issues, err error) error {
	issues, ok := err.(Issues) //nolint:errorlint // the contract of Engine.Compile
	if !ok {
		return err
	}
	*to = append(*to, issues...)
	return nil
}

// Mentions reports whether a judgement reads an input.
func (j *ExpressionJudge) Mentions(input string) bool {
	switch input {
	case "object":
		return j.mentions[inputObject]
	case "oldObject":
		return j.mentions[inputOldObject]
	case "request":
		return j.mentions[inputRequest]
	case "params":
		return j.mentions[inputParams]
	case "namespaceObject":
		return j.mentions[inputNamespace]
	}
	return false
}

// Judge implements Judge. It judges nothing, and denies nothing, when a match condition does not hold.
func (j *ExpressionJudge) Judge(ctx context.Context, r *Review) (*Decision, error) {
	holds, err := j.conditions.Hold(ctx, r)
	if err != nil || !holds {
		return admitted, err
	}
	run := r.Runs.begin(j.program)
	bind(run, r, &j.mentions)
	defer func() {
		r.Spent.Add(run.Cost())
		r.Runs.end(run)
	}()
	var denials []Denial
	var annotations []AuditAnnotation
	for i := range j.validations {
		v := &j.validations[i]
		verdict, err := run.Eval(ctx, v.expression, nil)
		switch {
		case fatal(err):
			return nil, describe(v.text, err)
		case err != nil:
			err = describe(v.text, err)
			denials = append(denials, Denial{Path: v.path, Message: err.Error(), Err: err})
		case !verdict.Bool:
			message, err := v.messageOf(ctx, run)
			if err != nil {
				return nil, err
			}
			denials = append(denials, Denial{Path: v.path, Message: message, Reason: v.reason})
		}
	}
	for i := range j.annotations {
		a := &j.annotations[i]
		verdict, err := run.Eval(ctx, a.expression, nil)
		if fatal(err) {
			return nil, describe(a.text, err)
		}
		if annotation, ok := a.annotation(verdict, err); ok {
			annotations = append(annotations, annotation)
		}
	}
	if denials == nil && annotations == nil {
		return admitted, nil
	}
	return &Decision{Denials: denials, AuditAnnotations: annotations}, nil
}

// fatal reports whether nothing more can be evaluated: the time is over, or the budget of the whole policy.
func fatal(err error) bool {
	if err == nil {
		return false
	}
	var cost *CostError
	if errors.As(err, &cost) {
		return cost.Run
	}
	var eval *EvalError
	return !errors.As(err, &eval)
}

// describe says which expression an error is of, in upstream's words.
func describe(text string, err error) error {
	return fmt.Errorf("expression '%s' resulted in error: %w", text, err)
}

// maxMessageBytes is upstream's bound of an evaluated message.
const maxMessageBytes = 5 << 10

// messageOf returns the message of a denial: that of its expression where this gives one line of a bearable length.
func (v *compiledValidation) messageOf(ctx context.Context, run Run) (string, error) {
	if v.message < 0 {
		return v.fallback, nil
	}
	verdict, err := run.Eval(ctx, v.message, nil)
	if fatal(err) {
		return "", fmt.Errorf("failed messageExpression: %w", err)
	}
	message := strings.TrimSpace(verdict.String)
	if err != nil || message == "" || len(message) > maxMessageBytes || strings.Contains(message, "\n") || !utf8.ValidString(message) {
		return v.fallback, nil
	}
	return message, nil
}

// annotation makes an audit annotation of a value: a text, or null for none.
func (a *compiledAnnotation) annotation(v Verdict, err error) (AuditAnnotation, bool) {
	if err != nil {
		return AuditAnnotation{Key: a.key, Err: describe(a.text, err)}, true
	}
	switch value := v.Value.Root(); value.Kind() {
	case document.String:
		text := strings.TrimSpace(value.String())
		return AuditAnnotation{Key: a.key, Value: text}, text != ""
	case document.Null, document.Absent:
		return AuditAnnotation{}, false
	default:
		return AuditAnnotation{Key: a.key, Err: fmt.Errorf("valueExpression '%s' resulted in unsupported return type: %s. Return type must be either string or null",
			a.text, value.Kind())}, true
	}
}

// Conditions are the match conditions of a policy. Nil ones always hold.
type Conditions struct {
	program Program
	texts   []string
	// params: a condition looks at them, so that they hold for one param and not for another.
	params bool
}

// CompileConditions compiles match conditions; path is where their list stands. The error is Issues when they are at fault.
func CompileConditions(engine Engine, path string, from []NamedText) (*Conditions, error) {
	if len(from) == 0 {
		return nil, nil
	}
	src, c := &Source{Inputs: Inputs(), Authorizer: true, Admission: true}, &Conditions{}
	for i, m := range from {
		src.Expressions = append(src.Expressions, Expression{Path: fmt.Sprintf("%s[%d].expression", path, i), Text: m.Expression, Want: Bool})
		c.texts = append(c.texts, strings.TrimSpace(m.Expression))
	}
	var err error
	if c.program, err = engine.Compile(src); err != nil {
		return nil, err
	}
	c.params = c.Mentions(Inputs()[inputParams])
	return c, nil
}

// Mentions reports whether a condition reads an input. They see no namespace.
func (c *Conditions) Mentions(input string) bool {
	if c == nil || input == Inputs()[inputNamespace] {
		return false
	}
	for i := range c.texts {
		if c.program.Mentions(i, input) {
			return true
		}
	}
	return false
}

// Hold reports whether all conditions are true. One that is false decides, whatever the others say; otherwise an
// error does.
func (c *Conditions) Hold(ctx context.Context, r *Review) (bool, error) {
	if c == nil {
		return true, nil
	}
	if c.params {
		return c.hold(ctx, r)
	}
	if e := r.Held.find(c, r); e != nil {
		return e.holds, e.err
	}
	holds, err := c.hold(ctx, r)
	r.Held.add(c, r, holds, err)
	return holds, err
}

func (c *Conditions) hold(ctx context.Context, r *Review) (bool, error) {
	without := *r
	without.NamespaceObject = document.Value{}
	run := r.Runs.begin(c.program)
	BindReview(run, &without)
	defer func() {
		r.Spent.Add(run.Cost())
		r.Runs.end(run)
	}()
	var errs []error
	for i, text := range c.texts {
		verdict, err := run.Eval(ctx, i, nil)
		switch {
		case fatal(err):
			return false, describe(text, err)
		case err != nil:
			errs = append(errs, describe(text, err))
		case !verdict.Bool:
			return false, nil
		}
	}
	return len(errs) == 0, errors.Join(errs...)
}
