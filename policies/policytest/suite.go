// Package policytest runs cases of a strategy, kept as data, against whatever implements
// it: CEL rules, a Wasm module, Go code. The format is described beside the cases, in
// policies/library/deployment/cases/README.md.
package policytest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
)

// Suite is the cases of one file.
type Suite struct {
	// Name of the file, without its suffix.
	Name  string
	Cases []*Case
}

// Case is one call of a hook, and what must come of it.
type Case struct {
	Name string
	// Hook, as in the manifest of a module: validateCreate.
	Hook string
	// Object is what the hook is called with; of validateDelete what is to be deleted.
	Object *document.Document
	// OldObject is nil unless the hook is one of an update.
	OldObject *document.Document
	// Expect is the outcome. Its Object is never nil in a hook that changes the object.
	Expect Outcome
}

// Outcome is what a hook gave.
type Outcome struct {
	// Object that a hook which changes it returned.
	Object   *document.Document
	Errors   []FieldError
	Warnings []string
}

// FieldError is one fault of an object.
type FieldError struct {
	// Type as in field.ErrorType: FieldValueInvalid.
	Type  string
	Field string
	// Value that is wrong; nil, in what is expected, is not compared.
	Value *document.Document
	// Detail; nil, in what is expected, is not compared.
	Detail *string
}

// String renders e for messages.
func (e FieldError) String() string {
	s := e.Type + " " + e.Field
	if e.Value != nil {
		s += " " + string(e.Value.Bytes())
	}
	if e.Detail != nil {
		s += fmt.Sprintf(" %q", *e.Detail)
	}
	return s
}

// matches reports whether got is what e expects.
func (e FieldError) matches(got FieldError) bool {
	return e.Type == got.Type && e.Field == got.Field &&
		(e.Value == nil || got.Value != nil && e.Value.Equal(got.Value)) &&
		(e.Detail == nil || got.Detail != nil && *e.Detail == *got.Detail)
}

// hooks are the names of hooks, and of what kind they are.
var hooks = map[string]hookKind{
	"default":          changes,
	"prepareForCreate": changes,
	"prepareForUpdate": changes | updates,
	"canonicalize":     changes,
	"validateCreate":   judges,
	"validateUpdate":   judges | updates,
	"validateDelete":   judges,
	"warningsOnCreate": warns,
	"warningsOnUpdate": warns | updates,
}

type hookKind uint8

const (
	changes hookKind = 1 << iota
	judges
	warns
	updates
)

// Load reads all suites of a directory, sorted by name.
func Load(fsys fs.FS, dir string) ([]*Suite, error) {
	files, err := fs.Glob(fsys, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases in %s", dir)
	}
	slices.Sort(files)
	var suites []*Suite
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		suite, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		suite.Name = path.Base(file[:len(file)-len(".yaml")])
		suites = append(suites, suite)
	}
	return suites, nil
}

func parse(data []byte) (*Suite, error) {
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, err
	}
	doc, err := document.Parse(raw)
	if err != nil {
		return nil, err
	}
	root := doc.Root()
	if err := known(root, "base", "cases"); err != nil {
		return nil, err
	}
	suite, names := &Suite{}, map[string]bool{}
	for i, v := range root.Get("cases").Elements() {
		c, err := parseCase(root.Get("base").Document(), v)
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

func parseCase(base *document.Document, v document.Value) (c *Case, err error) {
	if err := known(v, "name", "hook", "object", "change", "oldObject", "oldChange", "expect"); err != nil {
		return nil, err
	}
	c = &Case{Name: v.Get("name").String(), Hook: v.Get("hook").String()}
	kind, ok := hooks[c.Hook]
	if !ok {
		return nil, fmt.Errorf("hook %q does not exist", c.Hook)
	}
	if c.Object, err = resolve(base, v.Get("object"), v.Get("change")); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if c.Object == nil {
		return nil, errors.New("no object")
	}
	if kind&updates != 0 {
		if c.OldObject, err = resolve(base, v.Get("oldObject"), v.Get("oldChange")); err != nil {
			return nil, fmt.Errorf("oldObject: %w", err)
		}
	} else if v.Get("oldObject").Exists() || v.Get("oldChange").Exists() {
		return nil, fmt.Errorf("hook %s has no old object", c.Hook)
	}
	expect := v.Get("expect")
	if err := known(expect, allowed(kind)...); err != nil {
		return nil, fmt.Errorf("expect: %w", err)
	}
	if kind&changes != 0 {
		if c.Expect.Object, err = resolve(c.Object, expect.Get("object"), expect.Get("change")); err != nil {
			return nil, fmt.Errorf("expect: %w", err)
		}
	}
	for _, e := range expect.Get("errors").Elements() {
		if err := known(e, "type", "field", "value", "detail"); err != nil {
			return nil, fmt.Errorf("expect.errors: %w", err)
		}
		want := FieldError{Type: e.Get("type").String(), Field: e.Get("field").String(), Value: e.Get("value").Document()}
		if d := e.Get("detail"); d.Exists() {
			detail := d.String()
			want.Detail = &detail
		}
		c.Expect.Errors = append(c.Expect.Errors, want)
	}
	for _, w := range expect.Get("warnings").Elements() {
		c.Expect.Warnings = append(c.Expect.Warnings, w.String())
	}
	return c, nil
}

func allowed(kind hookKind) []string {
	switch {
	case kind&changes != 0:
		return []string{"object", "change"}
	case kind&judges != 0:
		return []string{"errors"}
	default:
		return []string{"warnings"}
	}
}

// resolve gives a whole object, or a change of base, or base.
func resolve(base *document.Document, whole, change document.Value) (*document.Document, error) {
	switch {
	case whole.Exists() && change.Exists():
		return nil, errors.New("both the whole and a change are given")
	case whole.Exists():
		return whole.Document(), nil
	case !change.Exists():
		return base, nil
	case base == nil:
		return nil, errors.New("there is no base to change")
	}
	return base.ApplyMergePatch(change.Document())
}

// known refuses members that are misspelled.
func known(v document.Value, names ...string) error {
	for name := range v.Members() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown field %q", name)
		}
	}
	return nil
}
