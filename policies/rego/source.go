package rego

import "weir.dev/weir/abi/document"

// Bounds of a source.
const (
	maxModules     = 256
	maxModuleBytes = 256 << 10
	maxSourceBytes = 2 << 20
)

// Source is a policy to compile.
type Source struct {
	// Path says where the policy stands, for issues: spec.rego.source.
	Path string
	// Modules are its texts, at least one.
	Modules []Module
	// Data is what the policy reads as data, beside its rules. nil: nothing.
	Data *document.Document
	// Entrypoint is the package or rule to evaluate, as "admission/deny", "admission.deny"
	// or "data.admission.deny". Empty: the package of the first module.
	Entrypoint string
	// Strict makes the error of a built-in function, such as that of to_number("x"), that of
	// the evaluation. Otherwise, as is Rego's way, the expression is undefined.
	Strict bool
}

// Module is one text.
type Module struct {
	// Name of it, in issues, below the path of the source: policy.rego. It may be empty.
	Name string
	Text string
}

// at is where a module stands.
func (s *Source) at(m Module) string {
	switch {
	case m.Name == "":
		return s.Path
	case s.Path == "":
		return m.Name
	}
	return s.Path + "/" + m.Name
}
