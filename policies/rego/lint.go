package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"weir.dev/weir/policies"
)

// inputNames are the members of input.
var inputNames = []string{"namespaceObject", "object", "oldObject", "params", "request", "settings"} // never written to

// Lint says what of a policy that compiles can hardly be meant: a member of input that there never is, and a rule of
// findings that is a boolean, at which every evaluation fails in which it is true. What does not compile has no issues.
func (e *Engine) Lint(src *Source) policies.Issues {
	c := compilation{engine: e, src: src, texts: map[string]Module{}}
	modules := c.parse()
	if len(c.issues) > 0 {
		return nil
	}
	for _, file := range sortedNames(modules) {
		ast.WalkRefs(modules[file], func(ref ast.Ref) bool {
			if len(ref) < 2 || !ref[0].Equal(ast.InputRootDocument) {
				return false
			}
			if name, ok := ref[1].Value.(ast.String); ok && !slices.Contains(inputNames, string(name)) {
				c.fail(c.texts[file], ref[1].Location, "input has no member %s: there are %s", name, strings.Join(inputNames, ", "))
			}
			return false
		})
	}
	entrypoint := c.entrypoint(modules)
	for _, file := range sortedNames(modules) {
		for _, rule := range modules[file].Rules {
			if isBoolean(rule) && isFindings(rule.Head.Ref(), modules[file], entrypoint) {
				c.fail(c.texts[file], rule.Location, "%v is a boolean, and must be a set of messages: write %[1]v contains \"…\" if { … }", rule.Head.Ref())
			}
		}
	}
	return c.issues
}

// isBoolean reports whether a rule has the value true or false.
func isBoolean(rule *ast.Rule) bool {
	if rule.Head.RuleKind() != ast.SingleValue || len(rule.Head.Args) > 0 || rule.Head.Value == nil {
		return false
	}
	_, ok := rule.Head.Value.Value.(ast.Boolean)
	return ok
}

// isFindings reports whether a rule is deny, violation or warn of the package that is the entrypoint, or the entrypoint.
func isFindings(name ast.Ref, in *ast.Module, entrypoint ast.Ref) bool {
	if len(name) != 1 || !slices.Contains([]string{string(deny), string(violation), string(warn)}, name.String()) {
		return false
	}
	return in.Package.Path.Equal(entrypoint) || in.Package.Path.Append(ast.StringTerm(name.String())).Equal(entrypoint)
}
