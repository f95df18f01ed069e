// Package library has the first-party policies, one directory each. A strategy is
// strategy.yaml; an admission policy is policy.yaml, a ValidatingAdmissionPolicy, with
// params.yaml, and policy.rego where it exists in Rego too. What must come of either is
// cases/*.yaml.
package library

import (
	"embed"
	"io/fs"
	"path"
)

// FS holds the directories: deployment/strategy.yaml, deployment/cases/create.yaml, ….
//
//go:embed */*.yaml */*.rego */cases/*.yaml
var FS embed.FS

// Strategies returns the paths of all Strategy objects in FS, sorted.
func Strategies() ([]string, error) { return fs.Glob(FS, "*/strategy.yaml") }

// Policies returns the directories of all admission policies in FS, sorted.
func Policies() ([]string, error) {
	files, err := fs.Glob(FS, "*/policy.yaml")
	for i, f := range files {
		files[i] = path.Dir(f)
	}
	return files, err
}
