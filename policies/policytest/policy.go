package policytest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

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

// PolicySuite is the cases of one file.
type PolicySuite struct {
	// Name of the file, without its suffix.
	Name  string
	Cases []*PolicyCase
}

// PolicyCase is one request, and what must come of it.
type PolicyCase struct {
	Name   string
	Review *policies.Review
	Expect Expectation
	// Messages of denials, in any order; nil is not compared.
	Messages []string
	// Warnings in any order; nil is not compared.
	Warnings []string
}

// Expectation says what comes of a request.
type Expectation string

// What may come of a request.
const (
	// Allowed by all validations.
	Allowed Expectation = "allowed"
	// Denied by one at least, and all could be evaluated.
	Denied Expectation = "denied"
	// Failed to be evaluated; the failurePolicy decides.
	Failed Expectation = "failed"
)

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
	files, err := fs.Glob(fsys, path.Join(dir, "cases", "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases in %s", path.Join(dir, "cases"))
	}
	for _, file := range files {
		suite, err := loadPolicySuite(fsys, file, p.Params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		p.Suites = append(p.Suites, suite)
	}
	return p, nil
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

func loadPolicySuite(fsys fs.FS, file string, params *document.Document) (*PolicySuite, error) {
	doc, err := readYAML(fsys, file)
	if err != nil {
		return nil, err
	}
	root := doc.Root()
	if err := known(root, "base", "cases"); err != nil {
		return nil, err
	}
	suite, names := &PolicySuite{Name: strings.TrimSuffix(path.Base(file), ".yaml")}, map[string]bool{}
	for i, v := range root.Get("cases").Elements() {
		c, err := parsePolicyCase(root.Get("base").Document(), params, v)
		if err != nil {
			return nil, fmt.Errorf("case %d %q: %w", i, v.Get("name").String(), err)
		}
		if c.Name == "" || names[c.Name] {
			return nil, fmt.Errorf("case %d: name %q is empty or taken", i, c.Name)
		}
		names[c.Name] = true
		suite.Cases = append(suite.Cases, c)
	}
	if len(suite.Cases) == 0 {
		return nil, errors.New("no cases")
	}
	return suite, nil
}

func parsePolicyCase(base, params *document.Document, v document.Value) (*PolicyCase, error) {
	if err := known(v, "name", "object", "change", "oldObject", "oldChange", "operation", "params", "namespaceObject", "request",
		"expect", "messages", "warnings"); err != nil {
		return nil, err
	}
	c := &PolicyCase{Name: v.Get("name").String(), Expect: Expectation(v.Get("expect").String())}
	if !slices.Contains([]Expectation{Allowed, Denied, Failed}, c.Expect) {
		return nil, fmt.Errorf("expect is %q, not allowed, denied or failed", c.Expect)
	}
	operation := v.Get("operation").String()
	var object, old *document.Document
	var err error
	if operation != "DELETE" {
		if object, err = resolve(base, v.Get("object"), v.Get("change")); err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		if object == nil {
			return nil, errors.New("no object")
		}
	} else if v.Get("object").Exists() || v.Get("change").Exists() {
		return nil, errors.New("what is deleted is the old object")
	}
	if operation == "DELETE" || operation == "UPDATE" || v.Get("oldObject").Exists() || v.Get("oldChange").Exists() {
		if old, err = resolve(base, v.Get("oldObject"), v.Get("oldChange")); err != nil {
			return nil, fmt.Errorf("oldObject: %w", err)
		}
		if old == nil {
			return nil, errors.New("no old object")
		}
	}
	switch {
	case operation == "" && old != nil:
		operation = "UPDATE"
	case operation == "":
		operation = "CREATE"
	case operation == "CREATE" && old != nil:
		return nil, errors.New("a creation has no old object")
	case !slices.Contains([]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, operation):
		return nil, fmt.Errorf("operation %q does not exist", operation)
	}
	request, err := requestOf(operation, object, old, v.Get("request"))
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if p := v.Get("params"); p.Exists() {
		params = p.Document()
	}
	c.Review = &policies.Review{
		Request: request.Root(), NamespaceObject: v.Get("namespaceObject"),
		Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Memo: &policies.Memo{},
	}
	for doc, to := range map[*document.Document]*document.Value{object: &c.Review.Object, old: &c.Review.OldObject, params: &c.Review.Params} {
		if doc != nil {
			*to = doc.Root()
		}
	}
	c.Messages, c.Warnings = texts(v.Get("messages")), texts(v.Get("warnings"))
	return c, nil
}

// texts is nil for a list that is not there.
func texts(list document.Value) []string {
	if !list.Exists() {
		return nil
	}
	out := make([]string, 0, list.Len())
	for _, v := range list.Elements() {
		out = append(out, v.String())
	}
	return out
}

// requestOf makes the AdmissionRequest of a case, with the fields that it sets.
func requestOf(operation string, object, old *document.Document, set document.Value) (*document.Document, error) {
	about := object
	if about == nil {
		about = old
	}
	group, version, found := strings.Cut(about.Get("apiVersion").String(), "/")
	if !found {
		group, version = "", group
	}
	kind := map[string]any{"group": group, "version": version, "kind": about.Get("kind").String()}
	request, err := document.FromValue(map[string]any{
		"uid": "00000000-0000-0000-0000-000000000000", "operation": operation, "kind": kind, "requestKind": kind,
		"name": about.Get("metadata", "name").String(), "namespace": about.Get("metadata", "namespace").String(),
		"userInfo": map[string]any{"username": "tester", "groups": []string{"system:authenticated"}}, "dryRun": false,
	})
	if err != nil || !set.Exists() {
		return request, err
	}
	return request.ApplyMergePatch(set.Document())
}

// RunPolicy runs every case of a directory as a subtest.
func RunPolicy(t *testing.T, p *PolicyDir, judge policies.Judge) {
	t.Helper()
	for _, suite := range p.Suites {
		t.Run(suite.Name, func(t *testing.T) {
			for _, c := range suite.Cases {
				t.Run(c.Name, func(t *testing.T) {
					for _, problem := range CheckPolicy(t.Context(), c, judge) {
						t.Error(problem)
					}
				})
			}
		})
	}
}

// CheckPolicy runs one case and says in what the outcome differs.
func CheckPolicy(ctx context.Context, c *PolicyCase, judge policies.Judge) (problems []string) {
	got, messages := Allowed, []string{}
	d, err := judge.Judge(ctx, c.Review)
	if err != nil {
		got, d, messages = Failed, &policies.Decision{}, append(messages, err.Error())
	}
	for _, denial := range d.Denials {
		if messages = append(messages, denial.Message); denial.Err != nil {
			got = Failed
		} else if got == Allowed {
			got = Denied
		}
	}
	if got != c.Expect {
		problems = append(problems, fmt.Sprintf("request is %s, want %s: %q", got, c.Expect, messages))
	}
	for name, lists := range map[string][2][]string{"messages": {c.Messages, messages}, "warnings": {c.Warnings, d.Warnings}} {
		want, have := slices.Sorted(slices.Values(lists[0])), slices.Sorted(slices.Values(lists[1]))
		if lists[0] != nil && !slices.Equal(want, have) {
			problems = append(problems, fmt.Sprintf("%s differ:\nwant\n  %s\ngot\n  %s", name, strings.Join(want, "\n  "), strings.Join(have, "\n  ")))
		}
	}
	slices.Sort(problems)
	return problems
}
