// Package weirtest runs the hooks of a strategy natively, as a server would run
// them in WebAssembly: objects come and go as JSON, and changes as a patch.
//
//	res, err := weirtest.Run(weir.For[Quote](Strategy{}), weirtest.Call{
//		Op:     abi.OpDefault,
//		Object: `{"kind": "Quote", "metadata": {"name": "a"}}`,
//	})
//
// It is for tests, and not for guests.
package weirtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	weir "weir.dev/weir/sdk/go"
)

// Call is one call of a hook. Documents are JSON texts; empty is absent.
type Call struct {
	// Op is the hook.
	Op abi.Op
	// Meta is the request. Without a time it is made at the start of 1970.
	Meta abi.Meta
	// Settings of the module. If the strategy implements weir.Configurer, it
	// is configured first.
	Settings string
	// The other input slots.
	Object, OldObject, Options, Params, Namespace string
	// TargetVersion of a conversion, "group/version".
	TargetVersion string
	// Objects are those that can be looked up, in JSON; see lookup.Objects.
	Objects []string
	// Allowed is what weir.Authorize allows; an empty member stands for anything.
	Allowed []weir.Access
	// Capabilities that are granted; nil grants all.
	Capabilities []string
}

// Result is what a hook did.
type Result struct {
	// Object is what the hook made of the object, in canonical JSON; empty if
	// it changed nothing.
	Object string
	// Patch is how it said so, if it was by a patch.
	Patch string
	// Errors, Denied, Warnings, Audit and Failure.
	abi.Result
	// Log lines.
	Log []string
}

// Run calls a hook. The error is that a document is not JSON, that the settings
// are refused, or that the hook failed or is not implemented.
func Run(hooks weir.Hooks, call Call) (*Result, error) {
	h, err := newHost(call)
	if err != nil {
		return nil, err
	}
	for _, op := range hooks.Ops() {
		if op != abi.OpConfigure || call.Op == op {
			continue
		}
		res, err := h.invoke(hooks, op)
		if err != nil {
			return nil, err
		}
		if why := refusal(res); why != "" {
			return nil, errors.New("settings refused: " + why)
		}
	}
	return h.invoke(hooks, call.Op)
}

// refusal says why a hook has refused, empty if it has not.
func refusal(res *Result) string {
	if res.Denied != nil {
		return res.Denied.Message
	}
	var errs weir.ErrorList
	for _, e := range res.Errors {
		errs = append(errs, weir.FieldError{Type: e.Type, Field: e.Field, Detail: e.Detail})
	}
	return errs.Error()
}

// host is a weir.Host without WebAssembly.
type host struct {
	inputs  [abi.InputSlots]*document.Document
	outputs map[abi.Slot][]byte
	log     []string
	op      abi.Op

	objects      *lookup.Objects
	allowed      lookup.Allowed
	capabilities []string
	counted      int // look-ups
	authorized   int
	request      string // the last look-up
	answer       []byte
}

var (
	_ weir.Host       = (*host)(nil)
	_ weir.Lookuper   = (*host)(nil)
	_ weir.Authorizer = (*host)(nil)
)

func newHost(call Call) (*host, error) {
	if call.Meta.Time == "" {
		call.Meta.Time = "1970-01-01T00:00:00Z"
	}
	meta, err := json.Marshal(call.Meta)
	if err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	h := &host{allowed: call.Allowed, capabilities: call.Capabilities}
	var docs []*document.Document
	for i, text := range call.Objects {
		d, err := document.Parse([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("object %d to be looked up: %w", i, err)
		}
		docs = append(docs, d)
	}
	if h.objects, err = lookup.NewObjects(docs...); err != nil {
		return nil, fmt.Errorf("to be looked up: %w", err)
	}
	slots := map[abi.Slot]string{
		abi.SlotMeta: string(meta), abi.SlotSettings: call.Settings,
		abi.SlotObject: call.Object, abi.SlotOldObject: call.OldObject, abi.SlotOptions: call.Options,
		abi.SlotParams: call.Params, abi.SlotNamespace: call.Namespace,
	}
	if call.TargetVersion != "" {
		target, err := json.Marshal(call.TargetVersion)
		if err != nil {
			return nil, fmt.Errorf("target version: %w", err)
		}
		slots[abi.SlotTargetVersion] = string(target)
	}
	for slot, text := range slots {
		if text == "" {
			continue
		}
		if h.inputs[slot], err = document.Parse([]byte(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", slot, err)
		}
	}
	return h, nil
}

// invoke runs one hook.
func (h *host) invoke(hooks weir.Hooks, op abi.Op) (*Result, error) {
	h.op, h.outputs, h.log = op, map[abi.Slot][]byte{}, nil
	h.counted, h.authorized, h.request, h.answer = 0, 0, "", nil
	status := hooks.Invoke(h, op)
	res := &Result{Log: h.log, Patch: string(h.outputs[abi.SlotPatch])}
	if raw, ok := h.outputs[abi.SlotResult]; ok {
		if err := json.Unmarshal(raw, &res.Result); err != nil {
			return nil, fmt.Errorf("hook[%s]: result: %w", op, err)
		}
	}
	switch status {
	case abi.StatusOK:
	case abi.StatusUnimplemented:
		return nil, fmt.Errorf("hook[%s]: not implemented", op)
	default:
		return nil, fmt.Errorf("hook[%s]: %s", op, res.Failure)
	}
	object, err := h.object()
	if err != nil {
		return nil, fmt.Errorf("hook[%s]: %w", op, err)
	}
	if object != nil && !object.Equal(h.inputs[abi.SlotObject]) {
		res.Object = string(object.Bytes())
	}
	return res, nil
}

// object is what the hook made of the object, nil if nothing.
func (h *host) object() (*document.Document, error) {
	whole, patched := h.outputs[abi.SlotObjectOut], h.outputs[abi.SlotPatch]
	switch {
	case whole != nil && patched != nil:
		return nil, errors.New("both an object and a patch")
	case whole != nil:
		return document.Parse(whole)
	case patched == nil:
		return nil, nil
	}
	if h.inputs[abi.SlotObject] == nil {
		return nil, errors.New("a patch of no object")
	}
	patch, err := document.Parse(patched)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	changed, err := h.inputs[abi.SlotObject].ApplyPatch(patch, abi.MaxObjectBytes)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return changed, nil
}

// Read implements weir.Host.
func (h *host) Read(slot abi.Slot, off int, buf []byte) int {
	if !slot.Input() {
		return -int(abi.EINVAL)
	}
	if h.inputs[slot] == nil {
		return -int(abi.ENOENT)
	}
	data := h.inputs[slot].Bytes()
	if off < 0 || off > len(data) {
		return -int(abi.EINVAL)
	}
	return give(data[off:], buf)
}

// give answers under the buffer rule.
func give(data, buf []byte) int {
	if len(data) <= len(buf) {
		copy(buf, data)
	}
	return len(data)
}

// Query implements weir.Host.
func (h *host) Query(slot abi.Slot, path string, buf []byte) int {
	switch {
	case !slot.Input():
		return -int(abi.EINVAL)
	case len(path) > abi.MaxPathBytes:
		return -int(abi.E2BIG)
	case h.inputs[slot] == nil:
		return -int(abi.ENOENT)
	}
	p, err := document.ParsePath(path)
	if err != nil {
		return -int(abi.EINVAL)
	}
	if strings.Contains(path, "[*]") {
		out := []byte{'['}
		for v := range h.inputs[slot].Root().Query(p) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, v.Raw()...)
		}
		return give(append(out, ']'), buf)
	}
	v := h.inputs[slot].Root().QueryFirst(p)
	if !v.Exists() {
		return -int(abi.ENOENT)
	}
	return give(v.Raw(), buf)
}

// Write implements weir.Host.
func (h *host) Write(slot abi.Slot, data []byte) int {
	switch {
	case !slot.Output(), slot == abi.SlotManifest,
		slot == abi.SlotObjectOut && !h.op.Mutates(),
		slot == abi.SlotPatch && !h.op.AcceptsPatch():
		return -int(abi.EINVAL)
	case len(data) > slot.Limit():
		return -int(abi.E2BIG)
	}
	h.outputs[slot] = append([]byte{}, data...)
	return len(data)
}

// Log implements weir.Host.
func (h *host) Log(_ abi.LogLevel, line string) int {
	if len(h.log) == abi.MaxLogLines {
		return 0
	}
	line = line[:min(len(line), abi.MaxLogLineBytes)]
	h.log = append(h.log, line)
	return len(line)
}

// granted tells whether the hook may use a capability now.
func (h *host) granted(capability string) bool {
	return h.op != abi.OpConfigure && (h.capabilities == nil || abi.Granted(h.capabilities, capability))
}

// refused is the return of an import for an error.
func refused(err error) int {
	var e abi.Errno
	if !errors.As(err, &e) {
		e = abi.EINVAL
	}
	return -int(e)
}

// Lookup implements weir.Lookuper.
func (h *host) Lookup(request, buf []byte) int {
	if h.answer == nil || h.request != string(request) {
		answer, err := h.lookup(request)
		if err != nil {
			return refused(err)
		}
		h.request, h.answer = string(request), answer
	}
	return give(h.answer, buf)
}

func (h *host) lookup(request []byte) ([]byte, error) {
	q, err := lookup.ParseQuery(request)
	switch {
	case err != nil:
		return nil, err
	case !h.granted(q.Capability()):
		return nil, abi.EPERM
	case h.counted == abi.MaxLookups:
		return nil, abi.E2BIG
	}
	h.counted++
	found, err := h.objects.Lookup(context.Background(), q)
	if err != nil {
		return nil, err
	}
	return q.Answer(found)
}

// Authorize implements weir.Authorizer.
func (h *host) Authorize(request []byte) int {
	a, err := lookup.ParseAuthorize(request)
	switch {
	case err != nil:
		return refused(err)
	case !h.granted(abi.CapabilityAuthorize):
		return -int(abi.EPERM)
	case h.authorized == abi.MaxAuthorize:
		return -int(abi.E2BIG)
	}
	h.authorized++
	if allowed, err := h.allowed.Authorize(context.Background(), a); err != nil || !allowed {
		return 0
	}
	return 1
}

// Text spells what a hook said, the object apart: the result in JSON and the
// log lines.
func Text(r *Result) string {
	raw, err := json.Marshal(r.Result)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s", raw, r.Log)
}
