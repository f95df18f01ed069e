package policytest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// PolicySuite is the cases of one file.
type PolicySuite struct {
	// Name of the file, without its suffix, and File, its path.
	Name, File string
	Cases      []*PolicyCase
}

// PolicyCase is one request, and what must come of it.
type PolicyCase struct {
	Name string
	// Line of the file, counted from 1.
	Line int
	// Review is the request as a judge sees it.
	Review *policies.Review
	// Request is the request as an AdmissionRequest of admission.k8s.io/v1, objects included. What of it follows from
	// the object may be missing.
	Request *document.Document
	// Namespace is the namespace of the request, nil where nothing is said.
	Namespace *document.Document
	// Params are instead of those that are beside the policy; WithoutParams says that there are none.
	Params        *document.Document
	WithoutParams bool
	// Allow has what users may do, where a policy asks: objects with verb, group, resource, subresource, namespace, name or
	// path, as abi.AuthorizeRequest. Absent: nothing.
	Allow  document.Value
	Expect Expectation
	// Patched is the object as the policies leave it; nil is not compared.
	Patched *document.Document
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
	// Unmatched by any policy. A judge alone cannot tell.
	Unmatched Expectation = "unmatched"
)

// LoadCases reads the cases of a directory: cases/*.yaml in it. params, which may be nil, are for the Review of cases that
// say nothing of params. No cases are an error.
func LoadCases(fsys fs.FS, dir string, params *document.Document) ([]*PolicySuite, error) {
	files, err := fs.Glob(fsys, path.Join(dir, "cases", "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases in %s", path.Join(dir, "cases"))
	}
	suites := make([]*PolicySuite, 0, len(files))
	for _, file := range files {
		suite, err := loadPolicySuite(fsys, file, params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		suites = append(suites, suite)
	}
	return suites, nil
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
	suite, names := &PolicySuite{Name: strings.TrimSuffix(path.Base(file), ".yaml"), File: file}, map[string]bool{}
	lines := caseLines(fsys, file)
	for i, v := range root.Get("cases").Elements() {
		c, err := parsePolicyCase(root.Get("base").Document(), params, v)
		if err != nil {
			return nil, fmt.Errorf("case %d %q: %w", i, v.Get("name").String(), err)
		}
		if c.Name == "" || names[c.Name] {
			return nil, fmt.Errorf("case %d: name %q is empty or taken", i, c.Name)
		}
		if names[c.Name] = true; i < len(lines) {
			c.Line = lines[i]
		}
		suite.Cases = append(suite.Cases, c)
	}
	if len(suite.Cases) == 0 {
		return nil, errors.New("no cases")
	}
	return suite, nil
}

// caseLines returns where the cases of a file begin.
func caseLines(fsys fs.FS, file string) []int {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil
	}
	var root struct {
		Cases []yaml.Node `yaml:"cases"`
	}
	if yaml.Unmarshal(text, &root) != nil {
		return nil
	}
	lines := make([]int, 0, len(root.Cases))
	for i := range root.Cases {
		lines = append(lines, root.Cases[i].Line)
	}
	return lines
}

func parsePolicyCase(base, params *document.Document, v document.Value) (*PolicyCase, error) {
	if err := known(v, "name", "object", "change", "oldObject", "oldChange", "operation", "params", "namespaceObject", "request", "allow",
		"expect", "patched", "patchedChange", "messages", "warnings"); err != nil {
		return nil, err
	}
	c := &PolicyCase{Name: v.Get("name").String(), Expect: Expectation(v.Get("expect").String())}
	if !slices.Contains([]Expectation{Allowed, Denied, Failed, Unmatched}, c.Expect) {
		return nil, fmt.Errorf("expect is %q, not allowed, denied, failed or unmatched", c.Expect)
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
		if c.WithoutParams = p.Kind() == document.Null; !c.WithoutParams {
			c.Params = params
		}
	}
	c.Allow = v.Get("allow")
	if n := v.Get("namespaceObject"); n.Kind() == document.Object {
		c.Namespace = n.Document()
	}
	if v.Get("patched").Exists() || v.Get("patchedChange").Exists() {
		if c.Patched, err = resolve(object, v.Get("patched"), v.Get("patchedChange")); err != nil {
			return nil, fmt.Errorf("patched: %w", err)
		}
		if c.Patched == nil {
			return nil, errors.New("patched: what is deleted is not changed")
		}
	}
	if c.Request, err = whole(request, object, old); err != nil {
		return nil, err
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

// whole returns a request with its objects.
func whole(request, object, old *document.Document) (*document.Document, error) {
	var err error
	for name, obj := range map[string]*document.Document{"object": object, "oldObject": old} {
		if obj == nil {
			continue
		}
		if request, err = request.Edit().Set(obj, name).Document(); err != nil {
			return nil, err
		}
	}
	return request, nil
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
func RunPolicy[S T[S]](t S, p *PolicyDir, judge policies.Judge) {
	t.Helper()
	for _, suite := range p.Suites {
		t.Run(suite.Name, func(t S) {
			for _, c := range suite.Cases {
				t.Run(c.Name, func(t S) {
					for _, problem := range CheckPolicy(t.Context(), c, judge) {
						t.Error(problem)
					}
				})
			}
		})
	}
}

// CheckPolicy runs one case by a judge alone and says in what the outcome differs. Whether a policy concerns the request,
// and what it would change, is not asked.
func CheckPolicy(ctx context.Context, c *PolicyCase, judge policies.Judge) (problems []string) {
	if c.Expect == Unmatched {
		return nil
	}
	got := Observed{Expect: Allowed, Messages: []string{}, Object: c.Patched}
	d, err := judge.Judge(ctx, c.Review)
	if err != nil {
		got.Expect, d, got.Messages = Failed, &policies.Decision{}, append(got.Messages, err.Error())
	}
	for _, denial := range d.Denials {
		if got.Messages = append(got.Messages, denial.Message); denial.Err != nil {
			got.Expect = Failed
		} else if got.Expect == Allowed {
			got.Expect = Denied
		}
	}
	got.Warnings = d.Warnings
	return Compare(c, &got)
}

// Observed is what came of a case.
type Observed struct {
	Expect             Expectation
	Messages, Warnings []string
	// Joined says that a policy joins its messages to one, sorted, with "; ", as a module may.
	Joined bool
	// Object as the policies leave it; nil where there is none.
	Object *document.Document
}

// Compare says in what an outcome differs from what is expected, one text a difference.
func Compare(c *PolicyCase, got *Observed) (problems []string) {
	if got.Expect != c.Expect {
		problem := fmt.Sprintf("request is %s, want %s", got.Expect, c.Expect)
		if len(got.Messages) > 0 {
			problem += fmt.Sprintf(": %q", got.Messages)
		}
		problems = append(problems, problem)
	}
	for _, list := range []struct {
		name       string
		want, have []string
	}{{"messages", c.Messages, got.Messages}, {"warnings", c.Warnings, got.Warnings}} {
		want, have := slices.Sorted(slices.Values(list.want)), slices.Sorted(slices.Values(list.have))
		if list.want == nil || slices.Equal(want, have) || got.Joined && strings.Join(want, "; ") == strings.Join(have, "; ") {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s differ (- want, + got):\n%s", list.name, diffLists(want, have)))
	}
	if c.Patched != nil && (got.Object == nil || !got.Object.Equal(c.Patched)) {
		problems = append(problems, "object differs (- want, + got):\n"+diffDocuments(c.Patched, got.Object))
	}
	return problems
}
