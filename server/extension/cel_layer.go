package extension

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/rest"
)

// The documents that rules see, by their index.
const (
	inputObject = iota
	inputOldObject
)

const oldObjectName = "oldObject"

// CELLayer is a rest.Layer of CEL rules. It is immutable. Each call of a hook is one run
// of its program: variables are evaluated at most once in it, and it has one cost budget.
//
// A rule that cannot be evaluated on an object, or that costs too much, makes the object
// invalid (422) with the rule's text: the object is what was new, and failing closed is
// the only safe reading of a rule that says nothing.
type CELLayer struct {
	rest.NoHooks
	name        string
	hooks       rest.HookSet
	program     policies.Program
	defaults    []defaultRule
	normalize   []mutation
	onCreate    []mutation
	onUpdate    []mutation
	validations []validation
	warnings    []warningRule
}

var _ rest.Layer = (*CELLayer)(nil)

// none stands for an expression that is not there.
const none = -1

type defaultRule struct {
	text        string
	parent      []step
	field       step
	value, when int // expressions
	merge       bool
	// flush says that an earlier default can be seen by this rule, whose changes must be
	// in the object before it is evaluated.
	flush bool
}

type mutation struct {
	text        string
	when        int
	apply, json int
}

type validation struct {
	forEach    []step // nil: once, for the object
	expression int
	text       string
	message    string
	messageExp int
	kind       field.ErrorType
	path       []step
	onCreate   bool
	wantsPath  bool
}

type warningRule struct {
	forEach    []step
	expression int
	text       string
	message    string
	messageExp int
	wantsPath  bool
}

// NewCELLayer compiles rules. path is where they stand, for issues, such as
// spec.layers[1].cel. The error is policies.Issues when the rules are at fault.
func NewCELLayer(engine policies.Engine, name, path string, rules *v1alpha1.CELLayer) (*CELLayer, error) {
	return newCELLayer(engine, rules, celBuilder{path: path, layer: &CELLayer{name: "cel[" + name + "]"}})
}

// NewBuiltInLayer is NewCELLayer for the rules of a built-in kind, which may default fields below its status.
func NewBuiltInLayer(engine policies.Engine, name, path string, rules *v1alpha1.CELLayer) (*CELLayer, error) {
	return newCELLayer(engine, rules, celBuilder{path: path, layer: &CELLayer{name: "cel[" + name + "]"}, status: true})
}

func newCELLayer(engine policies.Engine, rules *v1alpha1.CELLayer, b celBuilder) (*CELLayer, error) {
	b.source.Inputs = []string{"object", oldObjectName}
	for i, v := range rules.Variables {
		b.source.Variables = append(b.source.Variables, policies.Variable{
			Name:       v.Name,
			Expression: policies.Expression{Path: b.at("variables", i, "expression"), Text: v.Expression},
		})
	}
	for i := range rules.Normalize {
		b.layer.normalize = append(b.layer.normalize, b.mutation("normalize", i, &rules.Normalize[i]))
	}
	for i := range rules.Defaults {
		b.addDefault(i, &rules.Defaults[i])
	}
	for i := range rules.PrepareForCreate {
		b.layer.onCreate = append(b.layer.onCreate, b.mutation("prepareForCreate", i, &rules.PrepareForCreate[i]))
	}
	for i := range rules.PrepareForUpdate {
		b.layer.onUpdate = append(b.layer.onUpdate, b.mutation("prepareForUpdate", i, &rules.PrepareForUpdate[i]))
	}
	for i := range rules.Validations {
		b.addValidation(i, &rules.Validations[i])
	}
	for i := range rules.Warnings {
		b.addWarning(i, &rules.Warnings[i])
	}
	program, err := engine.Compile(&b.source)
	if issues, ok := err.(policies.Issues); ok { //nolint:errorlint // that is the contract of Compile
		b.issues = append(b.issues, issues...)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", b.path, err)
	}
	if err := b.issues.Err(); err != nil {
		return nil, err
	}
	b.layer.program = program
	b.finish(rules)
	return b.layer, nil
}

// celBuilder collects the expressions of a layer, to be compiled together.
type celBuilder struct {
	path   string
	status bool // fields below the status may be defaulted
	layer  *CELLayer
	source policies.Source
	issues policies.Issues
}

func (b *celBuilder) at(list string, i int, member string) string {
	return fmt.Sprintf("%s.%s[%d].%s", b.path, list, i, member)
}

func (b *celBuilder) issue(path, format string, args ...any) {
	b.issues = append(b.issues, policies.Issue{Path: path, Message: fmt.Sprintf(format, args...)})
}

// add adds an expression and returns its index.
func (b *celBuilder) add(path, text string, want policies.Type, item bool) int {
	b.source.Expressions = append(b.source.Expressions, policies.Expression{Path: path, Text: text, Want: want, Item: item})
	return len(b.source.Expressions) - 1
}

// addIf adds an expression where there is one.
func (b *celBuilder) addIf(path, text string, want policies.Type, item bool) int {
	if text == "" {
		return none
	}
	return b.add(path, text, want, item)
}

func (b *celBuilder) parsePath(at, text string) []step {
	path, err := parsePath(text)
	if err != nil {
		b.issue(at, "%v", err)
	}
	return path
}

func (b *celBuilder) addDefault(i int, rule *v1alpha1.DefaultRule) {
	at := b.at("defaults", i, "path")
	path := b.parsePath(at, rule.Path)
	d := defaultRule{
		text:  rule.Value,
		value: b.add(b.at("defaults", i, "value"), rule.Value, policies.Any, true),
		when:  b.addIf(b.at("defaults", i, "when"), rule.When, policies.Bool, true),
		merge: rule.Merge,
	}
	switch {
	case len(path) == 0:
		if rule.Path == "" {
			b.issue(at, "a path is required")
		}
	case path[len(path)-1].index != stepMember:
		b.issue(at, "path %q must end with the name of a field", rule.Path)
	case (path[0].name == "status" && (len(path) == 1 || !b.status)) || (len(path) == 1 && path[0].name == "metadata"), rest.IsIdentity(fieldPath(path)):
		b.issue(at, "%q may not be defaulted", rule.Path)
	default:
		d.parent, d.field = path[:len(path)-1], path[len(path)-1]
	}
	b.layer.defaults = append(b.layer.defaults, d)
}

func (b *celBuilder) mutation(list string, i int, m *v1alpha1.Mutation) mutation {
	out := mutation{
		text:  m.ApplyConfiguration + m.JSONPatch,
		when:  b.addIf(b.at(list, i, "when"), m.When, policies.Bool, false),
		apply: b.addIf(b.at(list, i, "applyConfiguration"), m.ApplyConfiguration, policies.ApplyConfiguration, false),
		json:  b.addIf(b.at(list, i, "jsonPatch"), m.JSONPatch, policies.JSONPatch, false),
	}
	if (out.apply == none) == (out.json == none) {
		b.issue(fmt.Sprintf("%s.%s[%d]", b.path, list, i), "exactly one of applyConfiguration and jsonPatch is required")
	}
	return out
}

// reasons are those that a validation may have.
var reasons = map[string]field.ErrorType{
	"":                               field.ErrorTypeInvalid,
	string(field.ErrorTypeInvalid):   field.ErrorTypeInvalid,
	string(field.ErrorTypeRequired):  field.ErrorTypeRequired,
	string(field.ErrorTypeForbidden): field.ErrorTypeForbidden, string(field.ErrorTypeDuplicate): field.ErrorTypeDuplicate,
	string(field.ErrorTypeNotSupported): field.ErrorTypeNotSupported, string(field.ErrorTypeNotFound): field.ErrorTypeNotFound,
	string(field.ErrorTypeTooLong): field.ErrorTypeTooLong, string(field.ErrorTypeTooMany): field.ErrorTypeTooMany,
}

func (b *celBuilder) addValidation(i int, v *v1alpha1.Validation) {
	item := v.ForEach != ""
	out := validation{
		text: v.Expression, message: v.Message, onCreate: v.OnCreate,
		expression: b.add(b.at("validations", i, "expression"), v.Expression, policies.Bool, item),
		messageExp: b.addIf(b.at("validations", i, "messageExpression"), v.MessageExpression, policies.String, item),
		wantsPath:  strings.Contains(v.Expression+v.MessageExpression, "path"),
	}
	var ok bool
	if out.kind, ok = reasons[v.Reason]; !ok {
		b.issue(b.at("validations", i, "reason"), "%q is not supported", v.Reason)
	}
	if item {
		out.forEach = b.parsePath(b.at("validations", i, "forEach"), v.ForEach)
	}
	if v.FieldPath != "" {
		out.path = b.parsePath(b.at("validations", i, "fieldPath"), v.FieldPath)
	}
	if slices.ContainsFunc(out.path, func(s step) bool { return s.index == stepAll }) {
		b.issue(b.at("validations", i, "fieldPath"), "a field path cannot have [*]; forEach can")
	}
	b.layer.validations = append(b.layer.validations, out)
}

func (b *celBuilder) addWarning(i int, w *v1alpha1.Warning) {
	item := w.ForEach != ""
	out := warningRule{
		text: w.Expression, message: w.Message,
		expression: b.add(b.at("warnings", i, "expression"), w.Expression, policies.Bool, item),
		messageExp: b.addIf(b.at("warnings", i, "messageExpression"), w.MessageExpression, policies.String, item),
		wantsPath:  strings.Contains(w.Expression+w.MessageExpression, "path"),
	}
	if item {
		out.forEach = b.parsePath(b.at("warnings", i, "forEach"), w.ForEach)
	}
	if w.Message == "" && w.MessageExpression == "" {
		b.issue(fmt.Sprintf("%s.warnings[%d]", b.path, i), "message or messageExpression is required")
	}
	b.layer.warnings = append(b.layer.warnings, out)
}

// finish computes what follows from the compiled program.
func (b *celBuilder) finish(rules *v1alpha1.CELLayer) {
	l := b.layer
	for i := range l.defaults {
		d := &l.defaults[i]
		for _, expression := range []int{d.value, d.when} {
			d.flush = d.flush || expression != none && l.program.Mentions(expression, b.source.Inputs[inputObject])
		}
		for j := range i {
			d.flush = d.flush || covers(append(slices.Clip(l.defaults[j].parent), l.defaults[j].field), d.parent)
		}
	}
	for i := range l.validations {
		v := &l.validations[i]
		v.onCreate = v.onCreate || !l.program.Mentions(v.expression, oldObjectName)
		if v.onCreate {
			l.hooks |= rest.HookSet(rest.HookValidate)
		}
		l.hooks |= rest.HookSet(rest.HookValidateUpdate)
	}
	if len(rules.Normalize) > 0 || len(rules.Defaults) > 0 {
		l.hooks |= rest.HookSet(rest.HookDefault)
	}
	if len(rules.PrepareForCreate) > 0 {
		l.hooks |= rest.HookSet(rest.HookPrepareForCreate)
	}
	if len(rules.PrepareForUpdate) > 0 {
		l.hooks |= rest.HookSet(rest.HookPrepareForUpdate)
	}
	if len(rules.Warnings) > 0 {
		l.hooks |= rest.HookSet(rest.HookWarningsOnCreate) | rest.HookSet(rest.HookWarningsOnUpdate)
	}
}

// Name implements rest.Layer.
func (l *CELLayer) Name() string { return l.name }

// Implements implements rest.Layer.
func (l *CELLayer) Implements() rest.HookSet { return l.hooks }
