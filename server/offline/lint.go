package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/rest"
)

// Severity of a Finding.
type Severity string

// The severities.
const (
	// Error: a server refuses it, or it cannot work.
	Error Severity = "error"
	// Warning: it works, and is perhaps not what its author wants.
	Warning Severity = "warning"
)

// Finding is one thing that is wrong with a policy or binding.
type Finding struct {
	Severity Severity `json:"severity"`
	// Rule names what was looked for: unused-variable.
	Rule string `json:"rule"`
	// File, Line and Column say where, Object and Path of what: ValidatingAdmissionPolicy/replicas, spec.variables[0].
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Object string `json:"object,omitempty"`
	Path   string `json:"path,omitempty"`
	// Message is one line, or several where the server says several.
	Message string `json:"message"`
	// Source is the line of the file.
	Source string `json:"-"`
}

// String renders a finding: file:line:col, what, and the line with a caret below it.
func (f *Finding) String() string {
	at := f.File
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
	}
	text := fmt.Sprintf("%s: %s: %s [%s]", at, f.Severity, f.Message, f.Rule)
	if f.Line == 0 || f.Column == 0 || f.Source == "" {
		return text
	}
	line := strings.ReplaceAll(strings.TrimRight(f.Source, "\r"), "\t", " ")
	return text + "\n | " + line + "\n | " + strings.Repeat(".", min(f.Column-1, utf8.RuneCountInString(line))) + "^"
}

// Lint looks for what is wrong with the policies and bindings among objects. The others, and known, are what they may refer
// to: definitions, params, modules. The files of modules that are not beside their Module are looked for in modules, which
// may be nil. The findings are in the order of the files.
func (w *Workbench) Lint(ctx context.Context, objects, known []Object, modules fs.FS) ([]Finding, error) {
	l := &linter{Workbench: w, set: &Set{workbench: w, resources: cloneResources(w.resources), modules: map[string]*module{}}, unread: map[string]bool{}}
	defer l.set.Close()
	for i := range known {
		if o := &known[i]; isDefinition(o) {
			if err := l.set.addDefinition(ctx, o); err != nil {
				return nil, fmt.Errorf("%s: %w", o, err)
			}
		}
	}
	for i := range objects {
		switch o := &objects[i]; {
		case isDefinition(o):
			l.begin(o)
			if err := l.set.addDefinition(ctx, o); err != nil {
				l.refused(err)
			}
		case rest.KindOf(o.Document).GroupKind() == moduleKind:
			l.begin(o)
			err := l.set.addModule(ctx, o)
			if errors.Is(err, fs.ErrNotExist) && modules != nil {
				there := *o
				there.FS, there.File = modules, path.Base(o.File)
				err = l.set.addModule(ctx, &there)
			}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				l.unread[rest.MetaOf(o.Document).Name()] = true
				l.note(Warning, "module", "spec.source", "it was not looked at: the file of the module is neither beside this one nor in --module-dir")
			case err != nil:
				l.refused(err)
			}
		}
	}
	l.survey(slices.Concat(objects, known))
	for i := range objects {
		l.object(ctx, &objects[i])
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return l.findings, nil
}

// linter looks at the objects one after the other.
type linter struct {
	*Workbench
	set      *Set
	findings []Finding
	// bound are the policies that have a binding, policies those that there are, withParams those of them that have a
	// paramKind, as KIND/NAME.
	bound, policies, withParams map[string]bool

	// unread are the Modules whose files are not there.
	unread map[string]bool

	// The object that is being looked at.
	from   *Object
	places *places
	name   string
}

func isDefinition(o *Object) bool {
	kind := rest.KindOf(o.Document)
	return kind.Group == crdResource.Group && kind.Kind == "CustomResourceDefinition"
}

func (l *linter) begin(o *Object) {
	l.from, l.places = o, newPlaces(o)
	l.name = o.kind() + "/" + rest.MetaOf(o.Document).Name()
}

// survey notes which policies and bindings there are.
func (l *linter) survey(objects []Object) {
	l.bound, l.policies, l.withParams = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range objects {
		o := &objects[i]
		gr, ok := loader.PolicyResourceOf(o.Document.Get("apiVersion").String(), o.kind())
		if !ok {
			continue
		}
		if kind, isPolicy := loader.HoldsPolicies(gr); isPolicy {
			key := kind + "/" + rest.MetaOf(o.Document).Name()
			l.policies[key] = true
			l.withParams[key] = o.Document.Get("spec", "paramKind").Kind() == document.Object
		} else {
			l.bound[kind+"/"+o.Document.Get("spec", "policyName").String()] = true
		}
	}
}

// add adds a finding at a place.
func (l *linter) add(severity Severity, rule, path string, at Position, format string, args ...any) {
	f := Finding{Severity: severity, Rule: rule, File: filepath.Join(l.from.Root, filepath.FromSlash(l.from.File)), Line: at.Line, Column: at.Column,
		Object: l.name, Path: path, Message: fmt.Sprintf(format, args...)}
	if at.Line > 0 {
		f.Source = l.places.excerpt(at)
	}
	l.findings = append(l.findings, f)
}

// note adds a finding about a field.
func (l *linter) note(severity Severity, rule, path, format string, args ...any) {
	l.add(severity, rule, path, l.places.at(path), format, args...)
}

// issue adds what a compiler says.
func (l *linter) issue(severity Severity, rule string, i policies.Issue) {
	at := l.places.at(i.Path)
	if i.Line > 0 {
		at = l.places.within(i.Path, i.Line, i.Column)
	}
	l.add(severity, rule, i.Path, at, "%s", i.Message)
}

// object looks at one object.
func (l *linter) object(ctx context.Context, o *Object) {
	gr, ok := loader.PolicyResourceOf(o.Document.Get("apiVersion").String(), o.kind())
	if !ok {
		if err := loader.CheckPolicyKind(o.Document.Get("apiVersion").String(), o.kind()); err != nil {
			l.begin(o)
			l.note(Error, "kind", "kind", "%s", err)
		}
		return
	}
	l.begin(o)
	r := l.resources[gr]
	kind := rest.KindOf(o.Document)
	v := r.Version(kind.Version)
	if v == nil {
		l.note(Error, "kind", "apiVersion", "version %q of %s does not exist", kind.Version, kind.Kind)
		return
	}
	if _, unknown, err := v.Schema.Prune(o.Document); err == nil && len(unknown) > 0 {
		for _, path := range unknown {
			l.note(Error, "unknown-field", path, "unknown field %q", path)
		}
		return
	}
	accepted, err := l.accept(ctx, gr, o.Document)
	issues := l.compileIssues(ctx, o)
	if err != nil {
		l.refusedBut(err, issues)
	}
	for _, i := range issues {
		l.issue(Error, "compile", i)
	}
	policyKind, isPolicy := loader.HoldsPolicies(gr)
	if !isPolicy {
		l.binding(policyKind, o.Document)
		return
	}
	l.policy(policyKind, o.Document)
	if err == nil && len(issues) == 0 {
		l.rego(accepted)
		l.expressions(policyKind, accepted)
	}
}

// compileIssues are those of the texts of a policy, with their positions.
func (l *linter) compileIssues(ctx context.Context, o *Object) policies.Issues {
	l.set.adopt(o)
	compiler := loader.NewPolicyCompiler(loader.PolicyCompilerConfig{Engines: l.cfg.Engines, Rego: l.cfg.Rego,
		Guest: func(name string, settings json.RawMessage) (*extension.SharedModule, string, error) {
			return l.set.guest(ctx, name, settings)
		}})
	err := compiler.Add(o.Document)
	var issues policies.Issues
	switch {
	case err == nil:
	case errors.As(err, &issues):
	case o.Document.Get("spec", "wasm").Exists():
		severity, module := Error, o.Document.Get("spec", "wasm", "module").String()
		if l.unread[module] {
			return nil // it was said of the Module
		}
		if l.set.modules[module] == nil {
			severity = Warning
		}
		l.note(severity, "module", "spec.wasm.module", "%s", err)
	}
	return issues
}

// wrongType is how encoding/json says that a value is not of the type of its field.
var wrongType = regexp.MustCompile(`cannot unmarshal .* into .*field \w+\.(\S+) of type`)

// refused adds why a server would refuse an object.
func (l *linter) refused(err error) { l.refusedBut(err, nil) }

// refusedBut leaves out what issues say already, and better.
func (l *linter) refusedBut(err error, issues policies.Issues) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		field := ""
		if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
			field = m[1]
		}
		l.note(Error, "invalid", field, "%s", err)
		return
	}
	for _, cause := range status.Status().Details.Causes {
		if slices.ContainsFunc(issues, func(i policies.Issue) bool { return i.Path == cause.Field }) {
			continue
		}
		if cause.Type == metav1.CauseTypeFieldValueInvalid && strings.HasPrefix(cause.Field, "<nil>") {
			cause.Field = ""
		}
		l.note(Error, "invalid", cause.Field, "%s", cause.Message)
	}
}

// binding looks at a binding.
func (l *linter) binding(kind string, obj *document.Document) {
	spec := obj.Get("spec")
	if name := spec.Get("policyName").String(); name != "" && !l.policies[kind+"/"+name] {
		l.note(Warning, "no-policy", "spec.policyName", "there is no %s %q in what is looked at", kind, name)
	}
	if l.withParams[kind+"/"+spec.Get("policyName").String()] && !spec.Get("paramRef").Exists() {
		l.note(Warning, "no-params", "spec.policyName", "the %s has a paramKind, and this binding no paramRef: params is null", kind)
	}
	l.rules("spec.matchResources", spec.Get("matchResources"))
}

// policy looks at what all kinds of policy have.
func (l *linter) policy(kind string, obj *document.Document) {
	name, spec := rest.MetaOf(obj).Name(), obj.Get("spec")
	if !l.bound[kind+"/"+name] {
		l.note(Warning, "no-binding", "metadata.name", "no binding among these files puts it in force")
	}
	if spec.Get("failurePolicy").String() == "Ignore" {
		l.note(Warning, "failure-policy", "spec.failurePolicy", "a request that cannot be judged is admitted: an error in an expression, a missing param or a broken module turns the policy off without a sign")
	}
	l.rules("spec.matchConstraints", spec.Get("matchConstraints"))
	if kind := spec.Get("paramKind"); kind.Exists() {
		gvk := schemaKind(kind)
		if _, err := l.set.resourceOf(gvk); err != nil && gvk.Kind != "" {
			l.note(Warning, "unknown-kind", "spec.paramKind", "kind %s is not known: give its CustomResourceDefinition by --crds", gvk)
		}
	}
}

// rules warns of those that match nothing.
func (l *linter) rules(path string, match document.Value) {
	for i, rule := range match.Get("resourceRules").Elements() {
		if !l.set.matchesAny(rule) {
			l.note(Warning, "matches-nothing", fmt.Sprintf("%s.resourceRules[%d]", path, i),
				"matches no resource that is known: %s in groups %s, versions %s", list(rule.Get("resources")), list(rule.Get("apiGroups")), list(rule.Get("apiVersions")))
		}
	}
}

func list(v document.Value) string {
	var texts []string
	for _, e := range v.Elements() {
		texts = append(texts, fmt.Sprintf("%q", e.String()))
	}
	return strings.Join(texts, ", ")
}

// matchesAny reports whether a rule selects any resource that is known.
func (s *Set) matchesAny(rule document.Value) bool {
	has := func(list document.Value, want string) bool {
		for _, e := range list.Elements() {
			if text := e.String(); text == "*" || text == want {
				return true
			}
		}
		return false
	}
	for _, r := range s.resources {
		if !has(rule.Get("apiGroups"), r.Group) || !slices.ContainsFunc(r.Versions, func(v *rest.Version) bool { return has(rule.Get("apiVersions"), v.Name) }) {
			continue
		}
		for _, e := range rule.Get("resources").Elements() {
			if resource, _, _ := strings.Cut(e.String(), "/"); resource == "*" || resource == r.Name {
				return true
			}
		}
	}
	return false
}
