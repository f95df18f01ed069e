package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// expressionMutator is a Mutator of expressions. It is immutable.
type expressionMutator struct {
	conditions *policies.Conditions
	program    policies.Program
	mutations  []compiledMutation
	mentions   map[string]bool
}

var (
	_ Mutator   = (*expressionMutator)(nil)
	_ Mentioner = (*expressionMutator)(nil)
)

// compiledMutation is expression i of the program: an apply configuration, or a JSON patch.
type compiledMutation struct {
	text  string
	merge bool
}

func newMutator(engines policies.Engines, spec *admissionregistrationv1.MutatingAdmissionPolicySpec) (*expressionMutator, error) {
	var issues policies.Issues
	collect := func(err error) error {
		found, ok := err.(policies.Issues) //nolint:errorlint // the contract of Engine.Compile
		if ok {
			issues = append(issues, found...)
			return nil
		}
		return err
	}
	m := &expressionMutator{mentions: map[string]bool{}}
	var err error
	m.conditions, err = policies.CompileConditions(engines.Conditions, "spec.matchConditions", ConditionTexts(spec.MatchConditions))
	if err := collect(err); err != nil {
		return nil, err
	}
	src := &policies.Source{Inputs: policies.Inputs(), Authorizer: true, Admission: true, Variables: policies.VariablesOf("spec.variables", variableTexts(spec.Variables))}
	for i, from := range spec.Mutations {
		at := fmt.Sprintf("spec.mutations[%d]", i)
		switch {
		case from.ApplyConfiguration != nil && from.JSONPatch == nil:
			text := from.ApplyConfiguration.Expression
			src.Expressions = append(src.Expressions, policies.Expression{Path: at + ".applyConfiguration.expression", Text: text, Want: policies.ApplyConfiguration})
			m.mutations = append(m.mutations, compiledMutation{text: strings.TrimSpace(text), merge: true})
		case from.JSONPatch != nil && from.ApplyConfiguration == nil:
			text := from.JSONPatch.Expression
			src.Expressions = append(src.Expressions, policies.Expression{Path: at + ".jsonPatch.expression", Text: text, Want: policies.JSONPatch})
			m.mutations = append(m.mutations, compiledMutation{text: strings.TrimSpace(text)})
		default:
			issues = append(issues, policies.Issue{Path: at, Message: "exactly one of applyConfiguration and jsonPatch is required"})
		}
	}
	m.program, err = engines.Rules.Compile(src)
	if err := collect(err); err != nil {
		return nil, err
	}
	if err := issues.Err(); err != nil {
		return nil, err
	}
	for _, name := range policies.Inputs() {
		m.mentions[name] = m.conditions.Mentions(name)
		for i := range src.Expressions {
			m.mentions[name] = m.mentions[name] || m.program.Mentions(i, name)
		}
	}
	return m, nil
}

// Mentions implements Mentioner.
func (m *expressionMutator) Mentions(input string) bool { return m.mentions[input] }

// Holds implements Mutator.
func (m *expressionMutator) Holds(ctx context.Context, r *policies.Review) (bool, error) {
	return m.conditions.Hold(ctx, r)
}

// Mutate implements Mutator.
func (m *expressionMutator) Mutate(ctx context.Context, obj *document.Document, r *policies.Review, change Changer) (*document.Document, error) {
	review := *r
	run := m.program.Begin()
	policies.BindReview(run, &review)
	defer func() {
		r.Spent.Add(run.Cost())
		if run, ok := run.(policies.Releaser); ok {
			run.Release()
		}
	}()
	for i := range m.mutations {
		x := &m.mutations[i]
		verdict, err := run.Eval(ctx, i, nil)
		if err != nil {
			return nil, fmt.Errorf("expression '%s' resulted in error: %w", x.text, err)
		}
		var next *document.Document
		if x.merge {
			if next, err = change.Merge(ctx, obj, verdict.Value); err != nil {
				return nil, fmt.Errorf("error applying patch: %w", err)
			}
		} else {
			next, err = obj.ApplyPatch(verdict.Value, abi.MaxObjectBytes)
			switch {
			case errors.Is(err, document.ErrTestFailed):
				continue // such a patch is not for this object
			case err != nil:
				return nil, fmt.Errorf("JSON Patch: %w", err)
			case next.Root().Kind() != document.Object:
				return nil, errors.New("JSON Patch: the result is not an object")
			}
		}
		if next.Equal(obj) {
			continue
		}
		if obj, err = change.Default(ctx, next); err != nil {
			return nil, err
		}
		review.Object = obj.Root()
		policies.BindReview(run, &review)
	}
	return obj, nil
}
