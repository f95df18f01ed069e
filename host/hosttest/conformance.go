package hosttest

import (
	"context"
	"errors"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/abitest"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
)

// HostCall is a call of the kit as a module takes it.
func HostCall(call abitest.Call) (*host.Call, error) {
	c := &host.Call{Op: call.Op, TargetVersion: call.TargetVersion}
	var err error
	if c.Meta, err = host.NewMeta(call.Meta); err != nil {
		return nil, err
	}
	for _, slot := range []struct {
		text string
		doc  **document.Document
	}{
		{call.Object, &c.Object}, {call.OldObject, &c.OldObject}, {call.Options, &c.Options},
		{call.Params, &c.Params}, {call.Namespace, &c.Namespace},
	} {
		if slot.text == "" {
			continue
		}
		if *slot.doc, err = document.Parse([]byte(slot.text)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Conformance makes a runtime a host for package abitest.
func Conformance(rt *host.Runtime) abitest.Host { return conformanceHost{rt} }

type conformanceHost struct{ rt *host.Runtime }

// Load implements abitest.Host.
func (h conformanceHost) Load(ctx context.Context, wasm []byte, settings string) (abitest.Guest, error) {
	config, err := ConformanceConfig()
	if err != nil {
		return nil, err
	}
	config.Settings = []byte(settings)
	m, err := h.rt.Load(ctx, wasm, config)
	if err != nil {
		return nil, err
	}
	return conformanceGuest{m}, nil
}

// ConformanceConfig grants a conformance guest what it asks for, and has what it
// looks up.
func ConformanceConfig() (host.ModuleConfig, error) {
	var docs []*document.Document
	for _, text := range abitest.Objects() {
		d, err := document.Parse([]byte(text))
		if err != nil {
			return host.ModuleConfig{}, err
		}
		docs = append(docs, d)
	}
	objects, err := lookup.NewObjects(docs...)
	return host.ModuleConfig{
		Name: "conformance", Capabilities: abitest.Capabilities(),
		Lookuper: away{objects}, Authorizer: lookup.Allowed(abitest.Allowed()),
	}, err
}

// away has no answer for abitest.AwayNamespace.
type away struct{ host.Lookuper }

// Lookup implements host.Lookuper.
func (a away) Lookup(ctx context.Context, q *lookup.Query) (*lookup.Found, error) {
	if q.Namespace == abitest.AwayNamespace {
		return nil, errors.New("the cache is not ready")
	}
	return a.Lookuper.Lookup(ctx, q)
}

type conformanceGuest struct{ m *host.Module }

// Manifest implements abitest.Guest.
func (g conformanceGuest) Manifest() abi.Manifest { return g.m.Manifest() }

// Close implements abitest.Guest.
func (g conformanceGuest) Close(ctx context.Context) error { return g.m.Close(ctx) }

// Call implements abitest.Guest.
func (g conformanceGuest) Call(ctx context.Context, call abitest.Call) (abitest.Outcome, error) {
	c, err := HostCall(call)
	if err != nil {
		return abitest.Outcome{}, err
	}
	res, err := g.m.Call(ctx, c)
	if err != nil {
		return abitest.Outcome{}, failure{err}
	}
	o := abitest.Outcome{Result: abi.Result{Errors: res.Errors, Denied: res.Denied, Warnings: res.Warnings, Audit: res.Audit}}
	if res.Object != nil {
		o.Object = string(res.Object.Bytes())
	}
	return o, nil
}

// failure implements abitest.Failure.
type failure struct{ error }

// FailureClass implements abitest.Failure.
func (f failure) FailureClass() string {
	class, _ := host.ClassOf(f.error)
	return class.String()
}

// Unwrap gives the host's error.
func (f failure) Unwrap() error { return f.error }
