package weir

import (
	"errors"
	"runtime"
	"strconv"
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/sdk/go/internal/codec"
)

// SDK names this SDK in manifests.
const SDK = "weir-go/1"

// Info is what a module says of itself.
type Info struct {
	// Name of the module; required.
	Name string
	// Version, by habit semver.
	Version string
	// Group, Resource and Kind that it is written for; empty means any.
	Group, Resource, Kind string
	// Capabilities that it needs for [Get] and [List], "lookup:configmaps" or
	// "lookup:deployments.apps" for each resource, and "authorize" for
	// [Authorize]. The operator has to grant them.
	Capabilities []string
}

// Describe is abi.ExportDescribe.
func (h Hooks) Describe(host Host, info Info) abi.Status {
	m := abi.Manifest{
		Name: info.Name, Version: info.Version,
		Group: info.Group, Resource: info.Resource, Kind: info.Kind, SDK: SDK,
		Capabilities: info.Capabilities,
	}
	for _, op := range h.Ops() {
		m.Hooks = append(m.Hooks, op.String())
	}
	raw, err := h.codec.Append(nil, &m)
	if err != nil || host.Write(abi.SlotManifest, raw) != len(raw) {
		return abi.StatusFailed
	}
	return abi.StatusOK
}

// Invoke is abi.ExportInvoke: it runs the hook of an op, once its object is
// decoded, and writes what comes of it.
func (h Hooks) Invoke(host Host, op abi.Op) abi.Status {
	status, _ := h.invoke(host, op, nil)
	return status
}

// invoke is Invoke with a buffer for what the host answers, to which strings
// in the hook's objects refer. It returns what is left of it.
func (h Hooks) invoke(host Host, op abi.Op, arena []byte) (status abi.Status, rest []byte) {
	if !op.Valid() || int(op) >= len(h.run) || h.run[op] == nil {
		return abi.StatusUnimplemented, arena
	}
	c := &Context{host: host, codec: h.codec, arena: arena}
	defer func() {
		if p := recover(); p != nil {
			status = c.recovered(p)
		}
		rest = c.arena
	}()
	h.run[op](c)
	return c.finish(), nil
}

// finish writes the result, if there is anything to say.
func (c *Context) finish() abi.Status {
	r := &c.result
	if len(r.Errors) == 0 && r.Denied == nil && len(r.Warnings) == 0 && len(r.Audit) == 0 && r.Failure == "" {
		return abi.StatusOK
	}
	raw, err := c.codec.Append(nil, r)
	if err != nil || c.host.Write(abi.SlotResult, raw) != len(raw) {
		return abi.StatusFailed
	}
	if r.Failure != "" {
		return abi.StatusFailed
	}
	return abi.StatusOK
}

// recovered makes a result of a panic.
func (c *Context) recovered(p any) abi.Status {
	switch p := p.(type) {
	case stop:
		return c.finish()
	case failure:
		c.result = abi.Result{Failure: string(p)}
	default:
		c.result = abi.Result{Failure: "panic: " + panicText(c.codec, p) + where()}
	}
	return c.finish()
}

func panicText(enc *codec.Codec, p any) string {
	switch p := p.(type) {
	case error:
		return p.Error()
	case string:
		return p
	case interface{ String() string }:
		return p.String()
	}
	raw, err := enc.Append(nil, p)
	if err != nil {
		return "of a value without text"
	}
	return string(raw)
}

// where names the line that panicked: the first frame below the runtime's.
func where() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	panicked := false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicked = true
		case panicked && f.Line > 0:
			return " (" + f.File[strings.LastIndexByte(f.File, '/')+1:] + ":" + strconv.Itoa(f.Line) + ")"
		}
		if !more {
			return ""
		}
	}
}

// undecodable ends the hook because of an input that does not fit the
// strategy's type: if it is the object, its sender is told, else the hook
// fails.
func (c *Context) undecodable(slot abi.Slot, at Path, err error) {
	var e *codec.Error
	if slot != abi.SlotObject || !errors.As(err, &e) {
		panic(failure("decode " + slot.String() + ": " + err.Error()))
	}
	switch {
	case e.Path == "":
	case e.Path[0] == '[':
		at += Path(e.Path)
	default:
		at = at.Child(e.Path)
	}
	c.result.Errors = append(c.result.Errors, abi.FieldError{
		Type: abi.ErrorTypeTypeInvalid, Field: string(at), Value: e.Value, Detail: e.Detail,
	})
	panic(stop{})
}

// convert converts each object of the array.
func (c *Context) convert(s Converter) {
	raw, target := c.read(abi.SlotObject), c.read(abi.SlotTargetVersion)
	to, ok := codec.String(target)
	if raw == nil || !ok {
		panic(failure("convert without objects or target version"))
	}
	out := []byte{'['}
	for i, object := range codec.Elements(raw) {
		converted, err := s.Convert(c, object, to)
		if err != nil {
			c.refuse(err)
			return
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, converted...)
	}
	c.write(abi.SlotObjectOut, append(out, ']'))
}
