package offline

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
)

// regoLinter says what of rules that compile can hardly be meant. A loader.RegoCompiler may be one.
type regoLinter interface {
	LintRego(rules *v1alpha1.RegoPolicy) policies.Issues
}

// rego looks at the rules of a Policy that compiles.
func (l *linter) rego(obj *document.Document) {
	linter, ok := l.cfg.Rego.(regoLinter)
	rules := obj.Get("spec", "rego")
	if !ok || !rules.Exists() {
		return
	}
	source := &v1alpha1.RegoPolicy{}
	if json.Unmarshal(rules.Raw(), source) != nil || source.Source == "" {
		return // a bundle is looked at where it is made
	}
	for _, i := range linter.LintRego(source) {
		l.issue(Warning, "rego", i)
	}
}

// LintRego looks at a policy.rego, which is no object but a file beside one.
func (w *Workbench) LintRego(fsys fs.FS, root, name string) ([]Finding, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil || w.cfg.Rego == nil {
		return nil, err
	}
	source := &v1alpha1.RegoPolicy{Source: string(text)}
	severity, rule := Error, "compile"
	var issues policies.Issues
	if _, _, err := w.cfg.Rego.CompileRego(source); err != nil {
		if !errors.As(err, &issues) {
			return nil, err
		}
	} else if linter, ok := w.cfg.Rego.(regoLinter); ok {
		severity, rule, issues = Warning, "rego", linter.LintRego(source)
	}
	file := filepath.Join(root, filepath.FromSlash(name))
	lines := strings.Split(string(text), "\n")
	var findings []Finding
	for _, i := range issues {
		f := Finding{Severity: severity, Rule: rule, File: file, Line: i.Line, Column: i.Column, Object: path.Base(name), Message: i.Message}
		if i.Line > 0 && i.Line <= len(lines) {
			f.Source = lines[i.Line-1]
		}
		findings = append(findings, f)
	}
	return findings, nil
}
