package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
)

// result reads what the guest wrote.
func (c *invocation) result(status abi.Status, call *Call) (*Result, *Error) {
	fail := func(class Class, format string, args ...any) (*Result, *Error) {
		return nil, &Error{Op: c.op, Class: class, Message: fmt.Sprintf(format, args...), Fuel: uint64(c.used)}
	}
	bad := func(format string, args ...any) (*Result, *Error) {
		return fail(ClassBadOutput, "bad output: "+format, args...)
	}
	if c.refused != "" {
		return bad("%s", c.refused)
	}
	r := &noResult
	if out := c.output(abi.SlotResult); out.written {
		r = new(abi.Result)
		if err := json.Unmarshal(out.data, r); err != nil {
			return bad("result: %v", err)
		}
	}
	switch status {
	case abi.StatusOK:
	case abi.StatusUnimplemented:
		return fail(ClassABIMismatch, "the module lists the hook and does not implement it")
	case abi.StatusFailed:
		if r.Failure == "" {
			r.Failure = "no reason given"
		}
		return fail(ClassTrap, "the guest failed: %s", r.Failure)
	default:
		return bad("status %d", status)
	}
	for _, e := range r.Errors {
		if !slices.Contains(fieldErrorTypes, e.Type) {
			return bad("result: error type %q does not exist", e.Type)
		}
	}
	if d := r.Denied; d != nil {
		if d.Code == 0 {
			d.Code = http.StatusForbidden
		}
		if d.Code < 400 || d.Code > 599 {
			return bad("result: denied with code %d", d.Code)
		}
	}
	res := &Result{Errors: r.Errors, Denied: r.Denied, Warnings: r.Warnings, Audit: r.Audit, Fuel: uint64(c.used)}
	object, patch := c.output(abi.SlotObjectOut), c.output(abi.SlotPatch)
	switch {
	case object.written && patch.written:
		return bad("both an object and a patch")
	case object.written:
		d, err := document.Parse(object.data)
		if err != nil {
			return bad("object: %v", err)
		}
		res.Object = d
	case patch.written:
		if call.Object == nil {
			return bad("a patch of no object")
		}
		ops, err := document.Parse(patch.data)
		if err != nil {
			return bad("patch: %v", err)
		}
		d, err := call.Object.ApplyPatch(ops, abi.MaxObjectBytes)
		if err != nil {
			return bad("patch: %v", err)
		}
		res.Object = d
	}
	if msg := checkObject(call, res); msg != "" {
		return bad("%s", msg)
	}
	if res.Object != nil && call.Object != nil && call.Op != abi.OpConvert && call.Op != abi.OpConnect && res.Object.Equal(call.Object) {
		res.Object = nil
	}
	return res, nil
}

// noResult stands for a result that was not written. It is never written to.
var noResult abi.Result

// fieldErrorTypes is never written to.
var fieldErrorTypes = abi.ErrorTypes()

// checkObject says what is wrong with the new object.
func checkObject(call *Call, res *Result) string {
	d := res.Object
	switch {
	case call.Op == abi.OpConvert:
		if d == nil {
			if res.Denied == nil && len(res.Errors) == 0 {
				return "a conversion without objects"
			}
			return ""
		}
		if d.Root().Kind() != document.Array {
			return "converted objects are not an array"
		}
		if call.Object != nil && d.Root().Len() != call.Object.Root().Len() {
			return fmt.Sprintf("%d objects were converted to %d", call.Object.Root().Len(), d.Root().Len())
		}
	case d != nil && call.Op != abi.OpConnect && d.Root().Kind() != document.Object:
		return "the object is not a JSON object"
	}
	return ""
}
