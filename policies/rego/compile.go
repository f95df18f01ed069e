package rego

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"weir.dev/weir/policies"
)

// errNoMeter cannot be: every evaluation has a meter.
var errNoMeter = errors.New("evaluation without a meter")

// Compile checks a policy and prepares it. The error is policies.Issues, which list
// everything that is wrong.
func (e *Engine) Compile(src *Source) (*Program, error) {
	c := compilation{engine: e, src: src, texts: map[string]Module{}}
	modules := c.parse()
	if err := c.issues.Err(); err != nil {
		return nil, err
	}
	compiler := ast.NewCompiler().
		WithCapabilities(e.capabilities).
		WithDefaultRegoVersion(ast.RegoV1).
		WithPathConflictsCheck(nil)
	compiler.SetErrorLimit(0)
	compiler.WithStageAfterID(ast.StageCheckRecursion, ast.CompilerStageDefinition{
		Name: "CheckExponential", MetricName: "weir_check_exponential",
		Stage: func(compiler *ast.Compiler) *ast.Error { // the type checker would fall for it
			if at, ok := exponential(compiler.Modules); ok {
				return ast.NewError(ast.CompileErr, at, "value is exponentially large: it holds itself many times over")
			}
			return nil
		},
	})
	compiler.Compile(modules)
	if compiler.Failed() {
		c.report(compiler.Errors)
		return nil, c.issues
	}
	c.refuseMocks(compiler.Modules)
	c.refuseNumbers(compiler.Modules)
	entrypoint := c.entrypoint(modules)
	if err := c.issues.Err(); err != nil {
		return nil, err
	}
	rules := resultRules(compiler, entrypoint)
	if len(rules) == 0 {
		c.fail(Module{}, nil, "entrypoint %v has none of the rules %s", entrypoint, strings.Join(resultNames, ", "))
		return nil, c.issues
	}
	p := &Program{
		config: e.config, path: src.Path, strict: src.Strict, builtins: e.guarded,
		compiler: compiler, shape: shapeOf(compiler.Modules), data: newData(src.Data), places: map[string]string{},
	}
	for file, m := range c.texts {
		p.places[file] = src.at(m)
	}
	for _, rule := range rules {
		body, err := compiler.QueryCompiler().Compile(ast.NewBody(ast.Equality.Expr(ast.VarTerm(resultVar), ast.NewTerm(rule.ref))))
		if err != nil {
			return nil, fmt.Errorf("rego query: %w", err)
		}
		p.queries = append(p.queries, query{role: rule.role, ref: rule.ref, body: body})
	}
	for _, m := range compiler.Modules {
		redirect(m, e.guarded)
	}
	return p, nil
}

const resultVar = "result"

type compilation struct {
	engine *Engine
	src    *Source
	texts  map[string]Module // by the file name that the parser knows
	issues policies.Issues
}

func (c *compilation) fail(m Module, at *ast.Location, format string, args ...any) {
	issue := policies.Issue{Path: c.src.at(m), Text: m.Text, Message: fmt.Sprintf(format, args...)}
	if at != nil && at.Row > 0 {
		issue.Line, issue.Column = at.Row, column(m.Text, at)
	}
	c.issues = append(c.issues, issue)
}

// column is that of a location in characters: the parser counts bytes.
func column(text string, at *ast.Location) int {
	lines := strings.Split(text, "\n")
	if at.Row < 1 || at.Row > len(lines) {
		return at.Col
	}
	line := lines[at.Row-1]
	return len([]rune(line[:min(max(at.Col-1, 0), len(line))])) + 1
}

func (c *compilation) parse() map[string]*ast.Module {
	total := 0
	for _, m := range c.src.Modules {
		total += len(m.Text)
		if len(m.Text) > maxModuleBytes {
			c.fail(Module{Name: m.Name}, nil, "%d bytes are more than %d", len(m.Text), maxModuleBytes)
		}
	}
	switch n := len(c.src.Modules); {
	case n == 0:
		c.fail(Module{}, nil, "a policy is required")
	case n > maxModules:
		c.fail(Module{}, nil, "%d modules are more than %d", n, maxModules)
	case total > maxSourceBytes:
		c.fail(Module{}, nil, "%d bytes are more than %d", total, maxSourceBytes)
	}
	if len(c.issues) > 0 {
		return nil
	}
	modules := map[string]*ast.Module{}
	for i, m := range c.src.Modules {
		file := strconv.Itoa(i)
		c.texts[file] = m
		parsed, err := ast.ParseModuleWithOpts(file, m.Text, ast.ParserOptions{
			Capabilities: c.engine.capabilities, RegoVersion: ast.RegoV1,
		})
		var errs ast.Errors
		var one *ast.Error
		switch {
		case errors.As(err, &errs):
			c.report(errs)
		case errors.As(err, &one):
			c.report(ast.Errors{one})
		case err != nil:
			c.fail(m, nil, "%v", err)
		case parsed == nil:
			c.fail(m, nil, "module has neither a package nor rules")
		default:
			modules[file] = parsed
		}
	}
	return modules
}

// report adds the errors of the parser or compiler, by their places.
func (c *compilation) report(errs ast.Errors) {
	errs = slices.Clone(errs)
	slices.SortStableFunc(errs, func(a, b *ast.Error) int {
		if a.Location == nil || b.Location == nil {
			return 0
		}
		return a.Location.Compare(b.Location)
	})
	for _, err := range errs {
		m := Module{}
		if err.Location != nil && err.Location.Row > 0 {
			m = c.texts[err.Location.File]
		}
		c.fail(m, err.Location, "%s", c.message(err))
	}
}

// message says what to do, where the compiler's own words do not.
func (c *compilation) message(err *ast.Error) string {
	if name, ok := strings.CutPrefix(err.Message, "undefined function "); ok {
		if why := c.engine.refused[name]; why != "" {
			return fmt.Sprintf("built-in function %s is not available: %s", name, why)
		}
	}
	if err.Code == ast.ParseErr && strings.Contains(err.Message, "keyword is required") {
		return err.Message + " (this is the syntax of Rego v1: deny contains msg if { … })"
	}
	message, _, _ := strings.Cut(err.Message, "\n")
	if err.Details != nil {
		if lines := err.Details.Lines(); err.Code == ast.TypeErr && len(lines) > 0 {
			for _, line := range lines {
				if line = strings.TrimSpace(line); line != "" && strings.Trim(line, "^ ") != "" {
					message += "; " + line
				}
			}
		}
	}
	return message
}

// refuseMocks refuses to replace functions by with, which would go around guards.
func (c *compilation) refuseMocks(modules map[string]*ast.Module) {
	for _, file := range sortedNames(modules) {
		ast.WalkWiths(modules[file], func(w *ast.With) bool {
			ref, ok := w.Target.Value.(ast.Ref)
			if !ok || !ref[0].Equal(ast.InputRootDocument) && !ref[0].Equal(ast.DefaultRootDocument) {
				c.fail(c.texts[file], w.Location, "with cannot replace %v: built-in functions cannot be replaced", w.Target)
			}
			return false
		})
	}
}

// refuseNumbers refuses literals that take more to calculate with than they look.
func (c *compilation) refuseNumbers(modules map[string]*ast.Module) {
	for _, file := range sortedNames(modules) {
		ast.WalkTerms(modules[file], func(t *ast.Term) bool {
			n, ok := t.Value.(ast.Number)
			if ok && len(n) > 6 && (len(n) > maxDigits || refuseExponents(&meter{}, "", string(n)) != nil) {
				c.fail(c.texts[file], t.Location, "number is too large")
			}
			return false
		})
	}
}

func sortedNames(modules map[string]*ast.Module) []string {
	names := make([]string, 0, len(modules))
	for name := range modules {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// entrypoint is the reference that is evaluated.
func (c *compilation) entrypoint(modules map[string]*ast.Module) ast.Ref {
	text := c.src.Entrypoint
	if text == "" {
		return modules["0"].Package.Path
	}
	text = strings.ReplaceAll(strings.Trim(text, "/"), "/", ".")
	if text != "data" && !strings.HasPrefix(text, "data.") && !strings.HasPrefix(text, "data[") {
		text = "data." + text
	}
	ref, err := ast.ParseRef(text)
	if err != nil || !ref.IsGround() || len(ref) < 2 {
		c.fail(Module{}, nil, "entrypoint %q is not the path of a package or rule", c.src.Entrypoint)
		return nil
	}
	return ref
}

// role says what the value of a rule means.
type role string

// The roles, which are the names of their rules.
const (
	deny      role = "deny"
	violation role = "violation"
	warn      role = "warn"
	allow     role = "allow"
	message   role = "message" // of what allow does not allow
	object    role = ""        // a rule of another name, whose value has the others as members
)

// resultNames are the rules that are looked for, in the order that they are evaluated.
var resultNames = []string{string(deny), string(violation), string(warn), string(allow)} // never written to

type resultRule struct {
	role role
	ref  ast.Ref
}

// resultRules finds the rules to evaluate: those of the package that is the entrypoint, or
// the rule that it is.
func resultRules(compiler *ast.Compiler, entrypoint ast.Ref) []resultRule {
	if len(compiler.GetRulesExact(entrypoint)) > 0 {
		name, _ := entrypoint[len(entrypoint)-1].Value.(ast.String)
		if !slices.Contains(resultNames, string(name)) {
			name = ast.String(object)
		}
		return []resultRule{{role(name), entrypoint}}
	}
	var found []resultRule
	for _, name := range resultNames {
		ref := entrypoint.Append(ast.StringTerm(name))
		if len(compiler.GetRulesWithPrefix(ref)) > 0 {
			found = append(found, resultRule{role(name), ref})
		}
	}
	if n := len(found); n > 0 && found[n-1].role == allow {
		if ref := entrypoint.Append(ast.StringTerm(string(message))); len(compiler.GetRulesExact(ref)) > 0 {
			found = append(found, resultRule{message, ref})
		}
	}
	return found
}
