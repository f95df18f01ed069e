package policytest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// PolicyDir is the directory of an admission policy. The format is described in
// policies/library/README.md.
type PolicyDir struct {
	// Name of the directory.
	Name string
	// Policy is policy.yaml, a ValidatingAdmissionPolicy.
	Policy *document.Document
	// Expressions are those of Policy.
	Expressions *policies.Expressions
	// Rego is the text of policy.rego, or empty.
	Rego string
	// Params is params.yaml, or nil.
	Params *document.Document
	Suites []*PolicySuite
}

// LoadPolicy reads the directory of an admission policy.
func LoadPolicy(fsys fs.FS, dir string) (*PolicyDir, error) {
	p := &PolicyDir{Name: path.Base(dir)}
	var err error
	if p.Policy, err = readYAML(fsys, path.Join(dir, "policy.yaml")); err != nil {
		return nil, err
	}
	if p.Expressions, err = expressions(p.Policy.Root()); err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join(dir, "policy.yaml"), err)
	}
	if text, err := fs.ReadFile(fsys, path.Join(dir, "policy.rego")); err == nil {
		p.Rego = string(text)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if p.Params, err = readYAML(fsys, path.Join(dir, "params.yaml")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p.Suites, err = LoadCases(fsys, dir, p.Params)
	return p, err
}

func readYAML(fsys fs.FS, file string) (*document.Document, error) {
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	doc, err := document.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return doc, nil
}

// expressions reads those of a ValidatingAdmissionPolicy.
func expressions(policy document.Value) (*policies.Expressions, error) {
	if kind := policy.Get("kind").String(); kind != "ValidatingAdmissionPolicy" {
		return nil, fmt.Errorf("kind is %q, not ValidatingAdmissionPolicy", kind)
	}
	spec := policy.Get("spec")
	if err := known(spec, "paramKind", "matchConstraints", "matchConditions", "variables", "validations", "auditAnnotations", "failurePolicy"); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	named := func(list document.Value, name, expression string) (out []policies.NamedText, err error) {
		for _, v := range list.Elements() {
			if err := known(v, name, expression); err != nil {
				return nil, err
			}
			out = append(out, policies.NamedText{Name: v.Get(name).String(), Expression: v.Get(expression).String()})
		}
		return out, nil
	}
	e := &policies.Expressions{Path: "spec"}
	var err error
	if e.MatchConditions, err = named(spec.Get("matchConditions"), "name", "expression"); err != nil {
		return nil, fmt.Errorf("spec.matchConditions: %w", err)
	}
	if e.Variables, err = named(spec.Get("variables"), "name", "expression"); err != nil {
		return nil, fmt.Errorf("spec.variables: %w", err)
	}
	if e.AuditAnnotations, err = named(spec.Get("auditAnnotations"), "key", "valueExpression"); err != nil {
		return nil, fmt.Errorf("spec.auditAnnotations: %w", err)
	}
	for _, v := range spec.Get("validations").Elements() {
		if err := known(v, "expression", "message", "messageExpression", "reason"); err != nil {
			return nil, fmt.Errorf("spec.validations: %w", err)
		}
		e.Validations = append(e.Validations, policies.ValidationText{
			Expression: v.Get("expression").String(), Message: v.Get("message").String(),
			MessageExpression: v.Get("messageExpression").String(), Reason: v.Get("reason").String(),
		})
	}
	return e, nil
}
