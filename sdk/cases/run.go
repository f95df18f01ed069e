package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
)

// Runner runs the cases of one module. It is not safe for concurrent use.
type Runner struct {
	runtime *host.Runtime
	wasm    []byte
	config  host.ModuleConfig
	modules map[string]*host.Module // by settings
}

// NewRunner returns a Runner of a module; the settings of its configuration
// are for cases without their own. The module is granted whatever it asks for. The
// Runner has to be closed before the runtime is.
func NewRunner(runtime *host.Runtime, wasm []byte, config host.ModuleConfig) *Runner {
	config.GrantAll = true
	return &Runner{runtime: runtime, wasm: wasm, config: config, modules: map[string]*host.Module{}}
}

// Close gives the loaded modules back.
func (r *Runner) Close(ctx context.Context) error {
	var errs []error
	for _, m := range r.modules {
		errs = append(errs, m.Close(ctx))
	}
	r.modules = map[string]*host.Module{}
	return errors.Join(errs...)
}

// Module loads the module with the settings of a case.
func (r *Runner) Module(ctx context.Context, c *Case) (*host.Module, error) {
	config := r.config
	if c.Settings != nil {
		config.Settings = c.Settings
	}
	if m := r.modules[string(config.Settings)]; m != nil {
		return m, nil
	}
	m, err := r.runtime.Load(ctx, r.wasm, config)
	if err != nil {
		return nil, err
	}
	r.modules[string(config.Settings)] = m
	return m, nil
}

// Outcome is what came of a case.
type Outcome struct {
	// Problems are the differences from what was expected; none is a pass.
	Problems []string
	// Fuel of the call.
	Fuel uint64
}

// Run runs a case. Its problems are in the outcome; the error is that the
// module cannot be loaded.
func (r *Runner) Run(ctx context.Context, c *Case) (Outcome, error) {
	m, err := r.Module(ctx, c)
	if c.Call.Op == abi.OpConfigure || c.Expect.Refused != "" {
		return Outcome{Problems: c.Expect.refused(err)}, nil
	}
	if err != nil {
		return Outcome{}, err
	}
	if !m.Handles(c.Call.Op) {
		return Outcome{Problems: []string{fmt.Sprintf("the module has no hook %s; it has %s", c.Call.Op, strings.Join(m.Manifest().Hooks, ", "))}}, nil
	}
	call := c.Call
	res, err := m.Call(ctx, &call)
	if err != nil {
		var e *host.Error
		if !errors.As(err, &e) {
			return Outcome{Problems: []string{err.Error()}}, nil
		}
		o := Outcome{Fuel: e.Fuel}
		if e.Class.String() != c.Expect.Failure {
			o.Problems = []string{fmt.Sprintf("failed: %s: %s", e.Class, e.Message)}
		}
		return o, nil
	}
	return Outcome{Problems: c.Expect.problems(call.Object, res), Fuel: res.Fuel}, nil
}

// refused tells what is wrong with how settings were taken.
func (x *Expectation) refused(err error) []string {
	switch {
	case err == nil && x.Refused != "":
		return []string{fmt.Sprintf("the settings were taken; want them refused for %q", x.Refused)}
	case err != nil && x.Refused == "":
		return []string{err.Error()}
	case err != nil && !strings.Contains(err.Error(), x.Refused):
		return []string{fmt.Sprintf("%v; want %q in it", err, x.Refused)}
	}
	return nil
}

// problems tells what is wrong with a result.
func (x *Expectation) problems(object *document.Document, got *host.Result) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if x.Failure != "" {
		add("no failure; want %s", x.Failure)
	}
	want, is := x.Object, got.Object
	if want == nil {
		want = object
	}
	if is == nil {
		is = object
	}
	if (want == nil) != (is == nil) || want != nil && !want.Equal(is) {
		add("object:\n  got  %s\n  want %s", text(is), text(want))
	}
	left := slices.Clone(got.Errors)
	for _, e := range x.Errors {
		i := slices.IndexFunc(left, e.matches)
		if i < 0 {
			add("missing error: %s", encoded(e))
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, e := range left {
		add("unexpected error: %s", encoded(e))
	}
	switch {
	case x.Denied == nil && got.Denied != nil:
		add("denied: %s", encoded(got.Denied))
	case x.Denied != nil && got.Denied == nil:
		add("not denied; want %s", encoded(x.Denied))
	case x.Denied != nil && !x.Denied.matches(got.Denied):
		add("denied: %s; want %s", encoded(got.Denied), encoded(x.Denied))
	}
	if !slices.Equal(x.Warnings, got.Warnings) {
		add("warnings: %q; want %q", got.Warnings, x.Warnings)
	}
	if !maps.Equal(x.Audit, got.Audit) {
		add("audit: %v; want %v", got.Audit, x.Audit)
	}
	return problems
}

func (e FieldError) matches(got abi.FieldError) bool {
	return e.Type == got.Type && e.Field == got.Field && (e.Detail == nil || *e.Detail == got.Detail) &&
		(e.Value == nil || same(e.Value, got.Value))
}

func (d *Denial) matches(got *abi.Denial) bool {
	return (d.Code == 0 || d.Code == got.Code) && (d.Reason == "" || d.Reason == got.Reason) && (d.Message == "" || d.Message == got.Message)
}

// same compares JSON.
func same(a, b []byte) bool {
	x, err := document.Parse(a)
	if err != nil {
		return false
	}
	y, err := document.Parse(b)
	return err == nil && x.Equal(y)
}

func text(d *document.Document) string {
	if d == nil {
		return "none"
	}
	return string(d.Bytes())
}

func encoded(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
