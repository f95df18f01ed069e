package cel

import (
	"encoding/json"
	"fmt"
	"strings"

	celgo "github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"weir.dev/weir/policies"
)

// ObjectType is what is known of the fields of a kind. Nil: nothing. It is immutable.
type ObjectType struct{ declared *apiservercel.DeclType }

// NewObjectType returns the type of a kind whose OpenAPI v3 schema is one of definitions, which refer to each other.
func NewObjectType(name string, definitions map[string][]byte) (*ObjectType, error) {
	var broken error
	resolved, err := resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
		raw, ok := definitions[ref[strings.LastIndexByte(ref, '/')+1:]]
		if !ok {
			return nil, false
		}
		out := &spec.Schema{}
		if err := json.Unmarshal(raw, out); err != nil {
			broken = fmt.Errorf("schema %s: %w", ref, err)
			return nil, false
		}
		return out, true
	}, name)
	if broken != nil {
		return nil, broken
	}
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	declared := common.SchemaDeclType(&openapi.Schema{Schema: resolved}, true)
	if declared == nil {
		return nil, nil
	}
	return &ObjectType{declared.MaybeAssignTypeName("weir.checked." + strings.ReplaceAll(name, "-", "_"))}, nil
}

// Check says of each expression of a source what is wrong with it where object and oldObject, and params, are of known
// types, in cel-go's words with a caret; "": nothing. What the expressions must evaluate to matters for mutations alone:
// what an apply configuration sets has to be a field of object, of its type.
//
// It is upstream's type checking (k8s.io/apiserver/pkg/admission/plugin/policy/validating): a variable that is wrong is
// dyn to those that use it.
func (e *Engine) Check(src *policies.Source, object, params *ObjectType) ([]string, error) {
	c := compiler{engine: e, src: src, vars: &varIndex{index: map[string]int{}, types: map[string]*celgo.Type{}}}
	opts, err := c.checkOptions(object, params)
	if err != nil {
		return nil, err
	}
	env, err := e.plain.Extend(opts...)
	if err != nil {
		return nil, fmt.Errorf("cel environment: %w", err)
	}
	for i := range src.Variables {
		v := &src.Variables[i]
		t := celgo.DynType
		if checked, issues := env.Compile(v.Text); issues.Err() == nil {
			t = checked.OutputType()
		}
		c.vars.index[v.Name], c.vars.types[v.Name] = i, t
	}
	var mutating *celgo.Env
	out := make([]string, len(src.Expressions))
	for i := range src.Expressions {
		x, env := &src.Expressions[i], env
		if x.Want == policies.ApplyConfiguration || x.Want == policies.JSONPatch {
			if mutating == nil {
				if mutating, err = e.mutating.Extend(opts...); err != nil {
					return nil, fmt.Errorf("cel environment for mutations: %w", err)
				}
			}
			env = mutating
		}
		checked, issues := env.Compile(x.Text)
		if issues.Err() == nil && x.Want == policies.ApplyConfiguration && object != nil {
			issues = checkConfiguration(checked, object)
		}
		if issues.Err() != nil {
			out[i] = issues.String()
		}
	}
	return out, nil
}

// checkOptions declare the variables with their types.
func (c *compiler) checkOptions(object, params *ObjectType) ([]celgo.EnvOption, error) {
	types := admissionTypes()
	declared := []*apiservercel.DeclType{types["request"], types["namespaceObject"]}
	add := func(t *ObjectType, names ...string) {
		if t == nil {
			return
		}
		declared = append(declared, t.declared)
		for _, name := range names {
			types[name] = t.declared
		}
	}
	add(object, "object", "oldObject")
	if params == nil || object == nil || params.declared.TypeName() != object.declared.TypeName() {
		add(params, "params")
	} else {
		types["params"] = object.declared
	}
	opts := []celgo.EnvOption{withTypes(declared...), c.withVariables, celgo.Variable("variables", celgo.ObjectType(variablesType))}
	for _, name := range c.src.Inputs {
		t := celgo.DynType
		if known := types[name]; known != nil {
			t = known.CelType()
		}
		opts = append(opts, celgo.Variable(name, t))
	}
	if c.src.Authorizer {
		opts = append(opts, authorizerVariables()...)
	}
	return opts, nil
}
