// Package cases runs cases of a module, kept as data beside it, on a host: what
// a hook is called with, and what has to come of it. `weir module test` runs
// them.
//
// A file of cases is YAML:
//
//	settings: {maxReplicas: 10}        # of the module, in every case without its own
//	request: {user: {username: jane}}  # members of abi.Meta, likewise
//	base: {kind: Deployment, …}        # what change changes
//	cases:
//	- name: too many replicas
//	  hook: validateCreate
//	  change: {spec: {replicas: 11}}   # a merge patch of base; or object: a whole one
//	  expect:
//	    errors: [{type: FieldValueInvalid, field: spec.replicas, value: 11}]
//
// Beside change and object there are oldChange and oldObject, options, params,
// namespace and targetVersion (of convert), and for modules that look things up,
// in a case or for all of a file:
//
//	objects: [{kind: ConfigMap, …}]              # all there are
//	allow: [{verb: use, resource: quotas, …}]    # what authorize allows, see lookup.Allowed
//
// A directory objects beside the files has objects for all cases, in YAML; those
// of a case or a file come in addition. Whatever capabilities the module asks for
// are granted. What is expected is nothing but:
//
//	change, object   what the hook makes of the object; without either: nothing
//	errors           value and detail are only compared if they are given
//	denied           code, reason and message are only compared if they are given
//	warnings, audit
//	failure          the class of a failure: trap, fuel, deadline, memory, …
//	refused          part of what refuses the settings, of the hook configure
//
// In a case of validateDelete the object is what is to be deleted.
package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
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
	// Settings of the module in JSON, nil for none.
	Settings json.RawMessage
	// Call of the hook; of configure nothing but the Op.
	Call host.Call
	// Expect is what must come of it.
	Expect Expectation

	objects []*document.Document // of the case, or of its file
}

// Expectation is what must come of a call.
type Expectation struct {
	// Object that the hook must make, nil: it must leave it alone.
	Object *document.Document
	Errors []FieldError
	Denied *Denial
	// Warnings in order.
	Warnings []string
	Audit    map[string]string
	// Failure is the label of a class, "" for none.
	Failure string
	// Refused is part of what refuses the settings, "" if nothing may.
	Refused string
}

// FieldError is what must be wrong with a field. What is nil is not compared.
type FieldError struct {
	Type   string          `json:"type"`
	Field  string          `json:"field"`
	Value  json.RawMessage `json:"value,omitempty"`
	Detail *string         `json:"detail,omitempty"`
}

// Denial is how the request must be refused. What is zero is not compared.
type Denial struct {
	Code    int32  `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Load reads all suites of a directory, sorted by name.
func Load(fsys fs.FS, dir string) ([]*Suite, error) {
	var files []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		found, err := fs.Glob(fsys, path.Join(dir, pattern))
		if err != nil {
			return nil, fmt.Errorf("cases: %w", err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		where := dir
		if where == "." {
			where = "the directory"
		}
		return nil, fmt.Errorf("cases: no files *.yaml, *.yml or *.json in %s", where)
	}
	slices.Sort(files)
	shared, err := LoadObjects(fsys, path.Join(dir, "objects"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cases: %w", err)
	}
	var suites []*Suite
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("cases: %w", err)
		}
		suite, err := Parse(data)
		if err != nil {
			return nil, fmt.Errorf("cases: %s: %w", file, err)
		}
		for _, c := range suite.Cases {
			if err := c.sees(shared); err != nil {
				return nil, fmt.Errorf("cases: %s: case %q: %w", file, c.Name, err)
			}
		}
		suite.Name = strings.TrimSuffix(path.Base(file), path.Ext(file))
		suites = append(suites, suite)
	}
	return suites, nil
}

// parsed is a document, nil if it is absent.
type parsed struct{ *document.Document }

// UnmarshalJSON implements json.Unmarshaler.
func (p *parsed) UnmarshalJSON(data []byte) (err error) {
	p.Document, err = document.Parse(data)
	return err
}

// file and entry are how cases are spelled.
type file struct {
	Settings json.RawMessage   `json:"settings,omitempty"`
	Request  json.RawMessage   `json:"request,omitempty"`
	Base     parsed            `json:"base,omitzero"`
	Objects  []parsed          `json:"objects,omitempty"`
	Allow    lookup.Allowed    `json:"allow,omitempty"`
	Cases    []json.RawMessage `json:"cases"` // each an entry
}

type entry struct {
	Name          string          `json:"name"`
	Hook          string          `json:"hook"`
	Settings      json.RawMessage `json:"settings,omitempty"`
	Request       json.RawMessage `json:"request,omitempty"`
	Object        parsed          `json:"object,omitzero"`
	Change        parsed          `json:"change,omitzero"`
	OldObject     parsed          `json:"oldObject,omitzero"`
	OldChange     parsed          `json:"oldChange,omitzero"`
	Options       parsed          `json:"options,omitzero"`
	Params        parsed          `json:"params,omitzero"`
	Namespace     parsed          `json:"namespace,omitzero"`
	TargetVersion string          `json:"targetVersion,omitempty"`
	Objects       []parsed        `json:"objects,omitempty"`
	Allow         lookup.Allowed  `json:"allow,omitempty"`
	Expect        struct {
		Object   parsed            `json:"object,omitzero"`
		Change   parsed            `json:"change,omitzero"`
		Errors   []FieldError      `json:"errors,omitempty"`
		Denied   *Denial           `json:"denied,omitempty"`
		Warnings []string          `json:"warnings,omitempty"`
		Audit    map[string]string `json:"audit,omitempty"`
		Failure  string            `json:"failure,omitempty"`
		Refused  string            `json:"refused,omitempty"`
	} `json:"expect,omitempty"`
}

// Parse reads one suite. It has no name.
func Parse(data []byte) (*Suite, error) {
	raw, err := yaml.YAMLToJSON(data) // merge keys, which the strict form calls duplicates
	if err != nil {
		return nil, err
	}
	var f file
	if err := decode(raw, &f); err != nil {
		return nil, err
	}
	if len(f.Cases) == 0 {
		return nil, errors.New("no cases")
	}
	suite, names := &Suite{}, map[string]bool{}
	for i, raw := range f.Cases {
		var e entry
		if err := decode(raw, &e); err != nil {
			return nil, fmt.Errorf("case %q: %w", nameOf(raw, i), err)
		}
		if e.Name == "" || names[e.Name] {
			return nil, fmt.Errorf("case %d: name %q is empty or taken", i, e.Name)
		}
		names[e.Name] = true
		c, err := e.resolve(&f)
		if err != nil {
			return nil, fmt.Errorf("case %q: %w", e.Name, err)
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite, nil
}

func (e *entry) resolve(f *file) (*Case, error) {
	op, ok := abi.ParseOp(e.Hook)
	if !ok {
		return nil, fmt.Errorf("hook %q does not exist; there are %s", e.Hook, hooks())
	}
	x := &e.Expect
	c := &Case{
		Name: e.Name, Settings: e.Settings,
		Call: host.Call{Op: op, Options: e.Options.Document, Params: e.Params.Document, Namespace: e.Namespace.Document, TargetVersion: e.TargetVersion},
		Expect: Expectation{
			Errors: x.Errors, Denied: x.Denied, Warnings: x.Warnings, Audit: x.Audit, Failure: x.Failure, Refused: x.Refused,
		},
	}
	if c.Settings == nil {
		c.Settings = f.Settings
	}
	for _, o := range append(slices.Clone(f.Objects), e.Objects...) {
		c.objects = append(c.objects, o.Document)
	}
	if err := c.sees(nil); err != nil {
		return nil, err
	}
	c.Call.Authorizer = append(slices.Clone(f.Allow), e.Allow...)
	if op == abi.OpConfigure {
		return c, nil
	}
	if x.Refused != "" {
		return nil, errors.New("expect: settings are refused in the hook configure")
	}
	var err error
	if c.Call.Object, err = resolve(f.Base.Document, e.Object, e.Change); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if e.OldObject.Document != nil || e.OldChange.Document != nil || updates(op) {
		if c.Call.OldObject, err = resolve(f.Base.Document, e.OldObject, e.OldChange); err != nil {
			return nil, fmt.Errorf("oldObject: %w", err)
		}
	}
	if op == abi.OpValidateDelete && c.Call.OldObject == nil {
		c.Call.Object, c.Call.OldObject = nil, c.Call.Object
	}
	if c.Call.Object == nil && c.Call.OldObject == nil {
		return nil, errors.New("there is neither an object nor a base")
	}
	if x.Object.Document != nil || x.Change.Document != nil {
		if c.Expect.Object, err = resolve(c.Call.Object, x.Object, x.Change); err != nil {
			return nil, fmt.Errorf("expect: %w", err)
		}
	}
	meta := Request(&c.Call)
	for _, raw := range []json.RawMessage{f.Request, e.Request} {
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, fmt.Errorf("request: %w", err)
		}
	}
	c.Call.Meta, err = host.NewMeta(meta)
	return c, err
}

func updates(op abi.Op) bool {
	switch op {
	case abi.OpPrepareForUpdate, abi.OpValidateUpdate, abi.OpStatusPrepare, abi.OpStatusValidate, abi.OpWarningsOnUpdate:
		return true
	}
	return false
}

// resolve gives a whole object, or a change of base, or base.
func resolve(base *document.Document, whole, change parsed) (*document.Document, error) {
	switch {
	case whole.Document != nil && change.Document != nil:
		return nil, errors.New("both the whole and a change are given")
	case whole.Document != nil:
		return whole.Document, nil
	case change.Document == nil:
		return base, nil
	case base == nil:
		return nil, errors.New("there is no base to change")
	}
	return base.ApplyMergePatch(change.Document)
}

// Request is the request that the objects of a call would have come by, at the
// start of 2026.
func Request(call *host.Call) abi.Meta {
	object := call.Object
	if object == nil {
		object = call.OldObject
	}
	m := abi.Meta{UID: "00000000-0000-0000-0000-000000000000", Time: "2026-01-01T00:00:00Z", User: abi.User{Username: "kubernetes-admin"}}
	if object != nil {
		m.Kind, m.Version = object.Get("kind").String(), object.Get("apiVersion").String()
		m.Name, m.Namespace = object.Get("metadata", "name").String(), object.Get("metadata", "namespace").String()
	}
	if group, version, ok := strings.Cut(m.Version, "/"); ok {
		m.Group, m.Version = group, version
	}
	switch {
	case call.Op == abi.OpValidateDelete, call.Object == nil:
		m.Operation = abi.OperationDelete
	case call.Op == abi.OpConnect:
		m.Operation = abi.OperationConnect
	case call.OldObject != nil:
		m.Operation = abi.OperationUpdate
	case call.Op != abi.OpConvert:
		m.Operation = abi.OperationCreate
	}
	return m
}
