// Package library has the first-party policies, one directory each: what they do as
// strategy.yaml, and what must come of that as cases/*.yaml.
package library

import (
	"embed"
	"io/fs"
)

// FS holds the directories: deployment/strategy.yaml, deployment/cases/create.yaml, ….
//
//go:embed */*.yaml */cases/*.yaml
var FS embed.FS

// Strategies returns the paths of all Strategy objects in FS, sorted.
func Strategies() ([]string, error) { return fs.Glob(FS, "*/strategy.yaml") }
