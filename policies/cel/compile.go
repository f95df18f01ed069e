package cel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"

	"weir.dev/weir/policies"
)

// maxTextBytes bounds one expression, maxExpressions a source.
const (
	maxTextBytes   = 64 << 10
	maxExpressions = 4096
	maxInputs      = 64 // they are the bits of expression.mentions
)

// Compile implements policies.Engine.
func (e *Engine) Compile(src *policies.Source) (policies.Program, error) {
	if n := len(src.Variables) + len(src.Expressions); n > maxExpressions {
		return nil, policies.Issues{{Path: pathOf(src, maxExpressions), Message: fmt.Sprintf("%d expressions are more than %d", n, maxExpressions)}}
	}
	if n := len(src.Inputs); n > maxInputs {
		return nil, fmt.Errorf("%d inputs are more than %d", n, maxInputs)
	}
	c := compiler{engine: e, src: src, vars: &varIndex{index: map[string]int{}, types: map[string]*celgo.Type{}}}
	p := &program{config: e.config, inputs: src.Inputs, runs: e.runs}
	if slices.Equal(p.inputs, e.inputs) {
		p.inputs = e.inputs
	}
	for i := range src.Variables {
		p.variables, p.names = append(p.variables, c.variable(i)), append(p.names, src.Variables[i].Name)
	}
	p.expressions = make([]expression, len(src.Expressions))
	for i := range src.Expressions {
		if x := c.expression(&src.Expressions[i]); x != nil { // otherwise there are issues
			p.expressions[i] = *x
		}
	}
	if err := c.issues.Err(); err != nil {
		return nil, err
	}
	for i := range p.expressions {
		p.mentioned |= p.expressions[i].mentions
	}
	return p, nil
}

// pathOf is where variable or expression i stands, counted through both.
func pathOf(src *policies.Source, i int) string {
	if i < len(src.Variables) {
		return src.Variables[i].Path
	}
	return src.Expressions[i-len(src.Variables)].Path
}

type varIndex struct {
	index map[string]int
	types map[string]*celgo.Type
	// narrow are variables that are no larger than the documents and their own text.
	narrow map[string]bool
	mask   []uint64
}

// envKey says which environment an expression is compiled in.
type envKey struct{ mutating, item bool }

type compiler struct {
	engine *Engine
	src    *policies.Source
	vars   *varIndex
	envs   map[envKey]*celgo.Env
	bare   *planner
	issues policies.Issues
}

func (c *compiler) fail(x *policies.Expression, format string, args ...any) {
	c.issues = append(c.issues, policies.Issue{Path: x.Path, Text: x.Text, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)})
}

// withVariables declares the type of variables in an environment.
func (c *compiler) withVariables(env *celgo.Env) (*celgo.Env, error) {
	return celgo.CustomTypeProvider(&variableTypes{Provider: env.CELTypeProvider(), index: c.vars.index, types: c.vars.types})(env)
}

// env returns the environment for x.
func (c *compiler) env(x *policies.Expression) (*celgo.Env, error) {
	key := envKey{mutating: x.Want == policies.ApplyConfiguration || x.Want == policies.JSONPatch, item: x.Item}
	if env := c.envs[key]; env != nil {
		return env, nil
	}
	base := c.engine.plain
	if key.mutating {
		base = c.engine.mutating
	}
	var opts []celgo.EnvOption
	var known map[string]*apiservercel.DeclType
	if c.src.Admission {
		known = c.engine.admission
		opts = append(opts, withTypes(known["request"], known["namespaceObject"]))
	}
	opts = append(opts, c.withVariables, celgo.Variable("variables", celgo.ObjectType(variablesType)))
	for _, name := range c.src.Inputs {
		t := celgo.DynType
		if known[name] != nil {
			t = known[name].CelType()
		}
		opts = append(opts, celgo.Variable(name, t))
	}
	if c.src.Authorizer {
		opts = append(opts, authorizerVariables()...)
	}
	if key.item {
		opts = append(opts, celgo.Variable("item", celgo.DynType), celgo.Variable("items", celgo.DynType),
			celgo.Variable("index", celgo.IntType), celgo.Variable("path", celgo.StringType))
	}
	env, err := base.Extend(opts...)
	if err != nil {
		return nil, fmt.Errorf("cel environment: %w", err)
	}
	if c.envs == nil {
		c.envs = map[envKey]*celgo.Env{}
	}
	c.envs[key] = env
	return env, nil
}

// planner returns what plans the expressions.
func (c *compiler) planner() *planner {
	if c.bare == nil {
		c.bare = &planner{engine: c.engine,
			types: &variableTypes{Provider: c.engine.unmetered.CELTypeProvider(), index: c.vars.index, types: c.vars.types}}
	}
	return c.bare
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (c *compiler) variable(i int) *expression {
	v := &c.src.Variables[i]
	_, taken := c.vars.types[v.Name]
	misnamed := func(format string) {
		path := strings.TrimSuffix(v.Path, ".expression") + ".name"
		c.issues = append(c.issues, policies.Issue{Path: path, Text: v.Name, Message: fmt.Sprintf(format, v.Name)})
	}
	switch {
	case !variableName.MatchString(v.Name):
		misnamed("variable name %q is not an identifier")
	case taken:
		misnamed("variable %q is defined twice")
	}
	x := v.Expression
	x.Item, x.Want = false, policies.Any
	out := c.expression(&x)
	// A variable that is wrong is dyn to those that use it, so that it is reported once.
	t, narrow, mask := celgo.DynType, false, uint64(0)
	if out != nil {
		t, narrow, mask = out.output, out.narrow, out.mentions
	}
	c.vars.index[v.Name], c.vars.types[v.Name] = i, t
	if c.vars.narrow == nil {
		c.vars.narrow = map[string]bool{}
	}
	c.vars.narrow[v.Name] = narrow
	c.vars.mask = append(c.vars.mask, mask)
	return out
}

// expression compiles x; nil when there are issues.
func (c *compiler) expression(x *policies.Expression) *expression {
	switch {
	case strings.TrimSpace(x.Text) == "":
		c.issues = append(c.issues, policies.Issue{Path: x.Path, Message: "an expression is required", Missing: x.Want != policies.String})
		return nil
	case len(x.Text) > maxTextBytes:
		c.issues = append(c.issues, policies.Issue{Path: x.Path, Message: fmt.Sprintf("%d bytes are more than %d", len(x.Text), maxTextBytes)})
		return nil
	}
	env, err := c.env(x)
	if err != nil {
		c.fail(x, "%v", err)
		return nil
	}
	checked, issues := env.Compile(x.Text)
	if issues.Err() != nil {
		c.report(x, issues)
		return nil
	}
	if x.Want == policies.StringOrNull {
		switch t := checked.OutputType(); t.Kind() {
		case celgo.StringKind, celgo.NullTypeKind, celgo.DynKind:
		default:
			c.fail(x, "must evaluate to string or null, not %s", typeName(t))
			return nil
		}
	}
	if want := wantType(x.Want); want != nil && !checked.OutputType().IsExactType(want) {
		c.fail(x, "must evaluate to %s, not %s%s", typeName(want), typeName(checked.OutputType()), hint(want, checked.OutputType()))
		return nil
	}
	root := checked.NativeRep()
	out := &expression{path: x.Path, text: x.Text, want: x.Want, output: checked.OutputType()}
	out.mentions = c.mentions(root)
	out.narrow = c.isNarrow(root)
	out.bounds = c.bounds(env, checked)
	limit := c.engine.config.ExpressionLimit
	plans := c.planner()
	out.metered = sync.OnceValues(func() (*meteredProgram, error) { return plans.metered(root) })
	if out.bounds[0] <= limit && !c.engine.config.AlwaysMeter {
		if out.plain, err = plans.plain(root, c.fieldsOf(root)); err != nil {
			c.fail(x, "%v", err)
			return nil
		}
	} else if _, err := out.metered(); err != nil {
		c.fail(x, "%v", err)
		return nil
	}
	return out
}

func (c *compiler) report(x *policies.Expression, issues *celgo.Issues) {
	errs := slices.Clone(issues.Errors())
	slices.SortStableFunc(errs, func(a, b *celgo.Error) int {
		if a.Location.Line() != b.Location.Line() {
			return a.Location.Line() - b.Location.Line()
		}
		return a.Location.Column() - b.Location.Column()
	})
	for _, err := range errs {
		c.issues = append(c.issues, policies.Issue{
			Path: x.Path, Text: x.Text,
			Line: err.Location.Line(), Column: err.Location.Column() + 1,
			Message: err.Message,
		})
	}
}

// mentions returns the inputs that an expression uses, as bits by their index.
func (c *compiler) mentions(root *ast.AST) uint64 {
	var mask uint64
	ast.PreOrderVisit(root.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch x.Kind() {
		case ast.IdentKind:
			if i := slices.Index(c.src.Inputs, x.AsIdent()); i >= 0 {
				mask |= 1 << i
			}
			if x.AsIdent() == "item" || x.AsIdent() == "items" {
				mask |= 1 // items are parts of the first input
			}
		case ast.SelectKind:
			s := x.AsSelect()
			if op := s.Operand(); op.Kind() == ast.IdentKind && op.AsIdent() == "variables" {
				if i, ok := c.vars.index[s.FieldName()]; ok && i < len(c.vars.mask) {
					mask |= c.vars.mask[i]
				}
			}
		case ast.CallKind: // variables.?name
			call := x.AsCall()
			if call.FunctionName() == "_?._" && len(call.Args()) == 2 && call.Args()[1].Kind() == ast.LiteralKind {
				name, _ := call.Args()[1].AsLiteral().Value().(string)
				if i, ok := c.vars.index[name]; ok && i < len(c.vars.mask) {
					mask |= c.vars.mask[i]
				}
			}
		default:
		}
	}))
	return mask
}

func wantType(t policies.Type) *celgo.Type {
	switch t {
	case policies.Bool:
		return celgo.BoolType
	case policies.String:
		return celgo.StringType
	case policies.ApplyConfiguration:
		return celgo.ObjectType(mutation.ObjectTypeName)
	case policies.JSONPatch:
		return celgo.ListType(celgo.ObjectType(mutation.JSONPatchTypeName))
	case policies.Any, policies.StringOrNull:
	}
	return nil
}

func typeName(t *celgo.Type) string { return celgo.FormatCELType(t) }

// hint says how to get the type that is wanted where only the run can know it.
func hint(want, have *celgo.Type) string {
	if have.Kind() != celgo.DynKind || (want.Kind() != celgo.BoolKind && want.Kind() != celgo.StringKind) {
		return ""
	}
	return fmt.Sprintf("; %s(…) converts it", typeName(want))
}
