package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/extensiontest"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/loader"
)

// The engines of a case, by what the policy is written in.
const (
	EngineCEL  = "cel"
	EngineRego = "rego"
	EngineWasm = "wasm"
)

// CaseDirs returns the directories at and below dir that have cases, sorted. Those whose names begin with a dot are left
// out.
func CaseDirs(fsys fs.FS, dir string) ([]string, error) {
	var dirs []string
	err := fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case name != dir && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.Name() == "cases" && name != dir:
			dirs = append(dirs, path.Dir(name))
			return fs.SkipDir
		}
		return nil
	})
	return dirs, err
}

// CaseOptions say how the cases of a directory are run.
type CaseOptions struct {
	// Wasm returns the module that a directory has beside policy.yaml, nil where it has none; nil: none has one.
	Wasm func(ctx context.Context, dir string) ([]byte, error)
	// Engines are those to run on; empty: all for which there is something.
	Engines []string
}

// Cases are those of one directory, with what they are run by.
type Cases struct {
	Cases []*Case
	sets  []*Set
}

// Close frees the policies.
func (c *Cases) Close() {
	for _, s := range c.sets {
		s.Close()
	}
}

// Case is one case on one engine.
type Case struct {
	// Name is FILE/CASE, with the engine before it where there are several: rego/labels/none at all.
	Name string
	// File and Line are where it stands.
	File string
	Line int
	// Engine is that of the policy.
	Engine string
	run    func(ctx context.Context) Result
	// Outcome judges the request of the case; nil for the hook of a strategy.
	Outcome func(ctx context.Context) (*Outcome, error)
}

// Result is what came of a case.
type Result struct {
	// Problems say in what it differs from what is expected; none: the case passes.
	Problems []string
	// Cost of its judgements.
	Cost policies.Cost
}

// Run runs a case. One that cannot run has a problem.
func (c *Case) Run(ctx context.Context) Result { return c.run(ctx) }

// LoadCases reads a directory and compiles what is in it: a strategy.yaml, or policies and bindings in YAML files with
// what they need, and perhaps the same policy in policy.rego and as a module. Its files have names below fsys.
func (w *Workbench) LoadCases(ctx context.Context, fsys fs.FS, dir string, options CaseOptions) (_ *Cases, err error) {
	objects, err := ReadDir(fsys, dir, false)
	if err != nil {
		return nil, err
	}
	for i := range objects {
		if objects[i].kind() == "Strategy" {
			return w.strategyCases(fsys, dir, &objects[i])
		}
	}
	suites, err := policytest.LoadCases(fsys, dir, nil)
	if err != nil {
		return nil, err
	}
	variants, err := variantsOf(ctx, fsys, dir, objects, options)
	if err != nil {
		return nil, err
	}
	cases := &Cases{}
	defer func() {
		if err != nil {
			cases.Close()
		}
	}()
	for _, v := range variants {
		set, err := w.Compile(ctx, v.objects)
		if err != nil {
			return nil, err
		}
		cases.sets = append(cases.sets, set)
		for _, suite := range suites {
			for _, c := range suite.Cases {
				name := suite.Name + "/" + c.Name
				if len(variants) > 1 {
					name = v.engine + "/" + name
				}
				made, err := newCase(set, c, &Case{Name: name, File: suite.File, Line: c.Line, Engine: v.engine})
				if err != nil {
					return nil, fmt.Errorf("%s: case %q: %w", suite.File, c.Name, err)
				}
				cases.Cases = append(cases.Cases, made)
			}
		}
	}
	return cases, nil
}

// newCase fills in how a case is run.
func newCase(set *Set, from *policytest.PolicyCase, c *Case) (*Case, error) {
	request := &Request{Review: from.Request.Root(), Namespace: from.Namespace, WithoutParams: from.WithoutParams}
	if from.Params != nil {
		request.Params = []*document.Document{from.Params}
	}
	if from.Allow.Exists() {
		decoder := json.NewDecoder(bytes.NewReader(from.Allow.Raw()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&request.Allow); err != nil {
			return nil, fmt.Errorf("allow: %w", err)
		}
	}
	c.Outcome = func(ctx context.Context) (*Outcome, error) { return set.Judge(ctx, request) }
	c.run = func(ctx context.Context) Result {
		out, err := set.Judge(ctx, request)
		if err != nil {
			return Result{Problems: []string{"cannot be run: " + err.Error()}}
		}
		got := observed(out)
		got.Joined = c.Engine == EngineWasm
		return Result{Problems: policytest.Compare(from, got), Cost: out.Cost}
	}
	return c, nil
}

// observed says what came of a request in the terms of a case.
func observed(out *Outcome) *policytest.Observed {
	got := &policytest.Observed{Expect: policytest.Unmatched, Messages: []string{}, Warnings: out.Warnings, Object: out.Object}
	failed := false
	for i := range out.Verdicts {
		v := &out.Verdicts[i]
		switch v.Outcome {
		case policy.OutcomeError, policy.OutcomeIgnored:
			failed = true
			got.Messages = append(got.Messages, v.Message)
		case policy.OutcomeDeny, policy.OutcomeShadowDeny:
			got.Messages = append(got.Messages, v.Message)
		}
	}
	switch {
	case failed:
		got.Expect = policytest.Failed
	case out.Status != nil:
		got.Expect = policytest.Denied
	case len(out.Verdicts) > 0:
		got.Expect = policytest.Allowed
	}
	return got
}

// strategyCases are those of the hooks of a Strategy.
func (w *Workbench) strategyCases(fsys fs.FS, dir string, from *Object) (*Cases, error) {
	strategy := &v1alpha1.Strategy{}
	if err := json.Unmarshal(from.Document.Bytes(), strategy); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	compiled, err := extension.CompileStrategy(w.cfg.Engines.Rules, &strategy.Spec, func(name string, _ json.RawMessage) (extension.Guest, error) {
		return nil, fmt.Errorf("module %q: the cases of a module are run by `weir module test`", name)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	suites, err := policytest.Load(fsys, path.Join(dir, "cases"))
	if err != nil {
		return nil, err
	}
	subject, cases := extensiontest.Subject(compiled.Layers("")...), &Cases{}
	for _, suite := range suites {
		for _, c := range suite.Cases {
			cases.Cases = append(cases.Cases, &Case{Name: suite.Name + "/" + c.Name, File: path.Join(dir, "cases", suite.Name+".yaml"), Engine: EngineCEL,
				run: func(ctx context.Context) Result { return Result{Problems: policytest.Check(ctx, c, subject)} }})
		}
	}
	return cases, nil
}

// variant is a policy in one of the languages that it is written in.
type variant struct {
	engine  string
	objects []Object
}

// variantsOf are the objects of a directory as they are, and with the same policy in Rego and as a module.
func variantsOf(ctx context.Context, fsys fs.FS, dir string, objects []Object, options CaseOptions) ([]variant, error) {
	var variants []variant
	wanted := func(engine string) bool {
		if len(options.Engines) == 0 {
			return true
		}
		for _, e := range options.Engines {
			if e == engine {
				return true
			}
		}
		return false
	}
	engine, policyCount := "", 0
	var main *Object
	for i := range objects {
		o := &objects[i]
		gr, ok := loader.PolicyResourceOf(o.Document.Get("apiVersion").String(), o.kind())
		if !ok {
			continue
		}
		if _, ok := loader.HoldsPolicies(gr); !ok {
			continue
		}
		main, policyCount = o, policyCount+1
		switch spec := o.Document.Get("spec"); {
		case spec.Get("wasm").Exists():
			engine = EngineWasm
		case spec.Get("rego").Exists() && engine == "":
			engine = EngineRego
		case engine == "":
			engine = EngineCEL
		}
	}
	if main == nil {
		return nil, fmt.Errorf("%s: no policy and no Strategy in its YAML files", dir)
	}
	if wanted(engine) {
		variants = append(variants, variant{engine, objects})
	}
	regoText, err := fs.ReadFile(fsys, path.Join(dir, "policy.rego"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && wanted(EngineRego) && engine != EngineRego {
		v, err := translated(objects, policyCount, map[string]any{"rego": map[string]any{"source": string(regoText)}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(dir, "policy.rego"), err)
		}
		variants = append(variants, variant{EngineRego, v})
	}
	if options.Wasm == nil || !wanted(EngineWasm) || engine == EngineWasm {
		return variants, nil
	}
	wasm, err := options.Wasm(ctx, dir)
	if err != nil || wasm == nil {
		return variants, err
	}
	name := main.Document.Get("metadata", "name").String()
	v, err := translated(objects, policyCount, map[string]any{"wasm": map[string]any{"module": name}})
	if err != nil {
		return nil, err
	}
	module, err := document.FromValue(map[string]any{"apiVersion": "weir.dev/v1alpha1", "kind": "Module", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"source": map[string]any{"inline": wasm}}})
	if err != nil {
		return nil, err
	}
	return append(variants, variant{EngineWasm, append(v, Object{FS: fsys, File: main.File, Document: module})}), nil
}

// translated returns objects with the only policy replaced by a Policy of the same constraints that judges by another
// engine, and its bindings by those of a Policy.
func translated(objects []Object, policyCount int, by map[string]any) ([]Object, error) {
	if policyCount != 1 {
		return nil, fmt.Errorf("%d policies are beside it; it is the same as which one?", policyCount)
	}
	out := make([]Object, 0, len(objects))
	for _, o := range objects {
		gr, ok := loader.PolicyResourceOf(o.Document.Get("apiVersion").String(), o.kind())
		if !ok {
			out = append(out, o)
			continue
		}
		kind, spec := "PolicyBinding", map[string]any{}
		for name, v := range o.Document.Get("spec").Members() {
			spec[name] = v.Document()
		}
		if _, ok := loader.HoldsPolicies(gr); ok {
			kind = "Policy"
			for name := range spec {
				switch name {
				case "matchConstraints", "failurePolicy", "paramKind", "reinvocationPolicy":
				default:
					delete(spec, name)
				}
			}
			for name, v := range by {
				spec[name] = v
			}
		}
		doc, err := document.FromValue(map[string]any{"apiVersion": "weir.dev/v1alpha1", "kind": kind,
			"metadata": map[string]any{"name": o.Document.Get("metadata", "name").String()}, "spec": spec})
		if err != nil {
			return nil, err
		}
		o.Document = doc
		out = append(out, o)
	}
	return out, nil
}
