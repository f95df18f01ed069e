package server

import (
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/rego"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/loader"
)

// regoCompiler compiles the rules of policies in Rego.
type regoCompiler struct{ engine *rego.Engine }

var _ loader.RegoCompiler = regoCompiler{}

func newRegoCompiler() (regoCompiler, error) {
	engine, err := rego.New(rego.Config{})
	return regoCompiler{engine}, err
}

// LintRego says what of rules that compile can hardly be meant.
func (c regoCompiler) LintRego(rules *v1alpha1.RegoPolicy) policies.Issues {
	return c.engine.Lint(&rego.Source{Path: "spec.rego.source", Modules: []rego.Module{{Text: rules.Source}}, Entrypoint: rules.Entrypoint})
}

// CompileRego implements loader.RegoCompiler.
func (c regoCompiler) CompileRego(rules *v1alpha1.RegoPolicy) (policies.Judge, string, error) {
	source, digest := &rego.Source{Path: "spec.rego.source", Modules: []rego.Module{{Text: rules.Source}}, Entrypoint: rules.Entrypoint}, ""
	if len(rules.Bundle) > 0 {
		bundle, err := rego.ReadBundle(rules.Bundle, rules.Digest)
		if err != nil {
			return nil, "", policies.Issues{{Path: "spec.rego.bundle", Message: err.Error()}}
		}
		source, digest = bundle.Source("spec.rego.bundle", rules.Entrypoint), bundle.Digest
	}
	program, err := c.engine.Compile(source)
	if err != nil {
		return nil, "", err
	}
	return program, digest, nil
}
