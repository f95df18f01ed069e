package weir

import (
	"weir.dev/weir/abi"
	"weir.dev/weir/sdk/go/internal/codec"
)

// Context is one call of a hook. It is not valid after the hook has returned.
type Context struct {
	host   Host
	codec  *codec.Codec
	inputs [abi.InputSlots][]byte // whole
	parts  [abi.InputSlots][]byte // what the strategy's type can hold of them
	meta   *abi.Meta
	result abi.Result
	arena  []byte // what is left of the buffer of answers
}

// Request is who asks for what: user, operation, name, time. In WebAssembly
// time.Now is the time of the request too, and stands still.
func (c *Context) Request() *abi.Meta {
	if c.meta == nil {
		c.meta = &abi.Meta{}
		if raw := c.read(abi.SlotMeta); raw != nil {
			if err := c.codec.Decode(raw, c.meta); err != nil {
				c.undecodable(abi.SlotMeta, "", err)
			}
		}
	}
	return c.meta
}

// Object is the object as it came to the hook.
func (c *Context) Object() View { return View{c, abi.SlotObject} }

// OldObject is the object as it is stored; absent on create.
func (c *Context) OldObject() View { return View{c, abi.SlotOldObject} }

// Options are the options of the request.
func (c *Context) Options() View { return View{c, abi.SlotOptions} }

// Params is the parameter object of a policy binding; absent if it has none.
func (c *Context) Params() View { return View{c, abi.SlotParams} }

// Namespace is the Namespace of the request; absent if it has none.
func (c *Context) Namespace() View { return View{c, abi.SlotNamespace} }

// Warn sends warnings to the client. Those of a request should be few and at
// most 120 characters each.
func (c *Context) Warn(warnings ...string) {
	c.result.Warnings = append(c.result.Warnings, warnings...)
}

// Refuse makes the request fail as [ValidatingAdmitter] says; nil does nothing.
// It is for hooks that cannot return an error.
func (c *Context) Refuse(err error) { c.refuse(err) }

// Annotate adds an audit annotation.
func (c *Context) Annotate(key, value string) {
	if c.result.Audit == nil {
		c.result.Audit = map[string]string{}
	}
	c.result.Audit[key] = value
}

// Log writes a line to the server's log, which is cut at 1 KiB. A call has 64.
func (c *Context) Log(level abi.LogLevel, line string) { c.host.Log(level, line) }

// failure is the panic of a hook that cannot decide.
type failure string

// stop is the panic that ends a hook whose result is complete.
type stop struct{}

// read returns the bytes of a slot, nil if it is absent. They must not be
// changed.
func (c *Context) read(slot abi.Slot) []byte {
	if c.inputs[slot] != nil {
		return c.inputs[slot]
	}
	n := c.host.Read(slot, 0, c.arena)
	if n == -int(abi.ENOENT) {
		return nil
	}
	if n > len(c.arena) {
		c.arena = make([]byte, max(n, arenaBytes))
		n = c.host.Read(slot, 0, c.arena)
	}
	if n < 0 || n > len(c.arena) {
		panic(failure("read " + slot.String() + ": " + errno(n)))
	}
	c.inputs[slot] = c.take(n)
	return c.inputs[slot]
}

// arenaBytes is the size of the buffer of answers to begin with.
const arenaBytes = 16 << 10

// take gives the first n bytes of the arena, which are the answer, away.
func (c *Context) take(n int) []byte {
	b := c.arena[:n:n]
	c.arena = c.arena[n:]
	return b
}

// readOutline returns an object of the members in an outline only, nil if the
// slot is absent. To pass over a member in the guest costs more than not to
// ask for it.
func (c *Context) readOutline(slot abi.Slot, outline []codec.Member) []byte {
	if outline == nil || c.inputs[slot] != nil {
		return c.read(slot)
	}
	if c.parts[slot] != nil {
		return c.parts[slot]
	}
	if len(c.arena) == 0 {
		c.arena = make([]byte, arenaBytes)
	}
	first := &c.arena[0]
	b := append(c.arena[:0], '{')
	for _, m := range outline {
		if m.Inner == nil {
			b = c.appendMember(b, slot, m.Lead, memberPath("", m.Name))
			continue
		}
		start := len(b)
		b = append(append(b, m.Lead...), '{')
		empty := len(b)
		for _, inner := range m.Inner {
			b = c.appendMember(b, slot, inner.Lead, memberPath(m.Name, inner.Name))
		}
		if len(b) == empty && !(View{c, slot}).Has(m.Name) {
			b = b[:start]
			continue
		}
		b = append(closed(b), '}', ',')
	}
	if len(b) == 1 && !(View{c, slot}).Has("") {
		return nil
	}
	b = append(closed(b), '}')
	if &b[0] == first {
		b = c.take(len(b))
	}
	c.parts[slot] = b
	return b
}

// appendMember appends a member of an object and a comma, or nothing if there
// is none.
func (c *Context) appendMember(b []byte, slot abi.Slot, lead []byte, path string) []byte {
	start := len(b)
	b = append(b, lead...)
	n := c.host.Query(slot, path, b[len(b):cap(b)])
	if n > cap(b)-len(b) {
		b = append(make([]byte, 0, 2*cap(b)+n), b...)
		n = c.host.Query(slot, path, b[len(b):cap(b)])
	}
	switch {
	case n == -int(abi.ENOENT):
		return b[:start]
	case n < 0 || n > cap(b)-len(b):
		panic(failure("query " + slot.String() + " " + path + ": " + errno(n)))
	}
	return append(b[:len(b)+n], ',')
}

// closed is b without a comma at its end.
func closed(b []byte) []byte {
	if n := len(b) - 1; b[n] == ',' {
		return b[:n]
	}
	return b
}

// query returns the answer to a query, nil if the path is absent.
func (c *Context) query(slot abi.Slot, path string) []byte {
	n := c.host.Query(slot, path, c.arena)
	if n == -int(abi.ENOENT) {
		return nil
	}
	if n > len(c.arena) {
		c.arena = make([]byte, max(n, arenaBytes))
		n = c.host.Query(slot, path, c.arena)
	}
	if n < 0 || n > len(c.arena) {
		panic(failure("query " + slot.String() + " " + path + ": " + errno(n)))
	}
	return c.take(n)
}

func (c *Context) write(slot abi.Slot, data []byte) {
	if n := c.host.Write(slot, data); n != len(data) {
		panic(failure("write " + slot.String() + ": " + errno(n)))
	}
}

func errno(n int) string {
	if n < 0 {
		return abi.Errno(-n).Error()
	}
	return "the length changes"
}

// encode returns the JSON of v; []byte is JSON already.
func (c *Context) encode(v any) []byte {
	if raw, ok := v.([]byte); ok {
		return raw
	}
	raw, err := c.codec.Append(nil, v)
	if err != nil {
		panic(failure("encode: " + err.Error()))
	}
	return raw
}

// refuse adds an error to the result.
func (c *Context) refuse(err error) {
	switch err := err.(type) { //nolint:errorlint // wrapped ones are refusals of their own
	case nil:
	case ErrorList:
		for _, e := range err {
			fe := abi.FieldError{Type: e.Type, Field: e.Field, Detail: e.Detail}
			if e.Value != nil {
				raw, cerr := c.codec.Append(nil, e.Value)
				if cerr != nil {
					panic(failure("value of " + e.Field + ": " + cerr.Error()))
				}
				fe.Value = raw
			}
			c.result.Errors = append(c.result.Errors, fe)
		}
	case *Denial:
		c.result.Denied = &abi.Denial{Code: int32(err.Code), Reason: err.Reason, Message: err.Message}
	default:
		c.result.Denied = &abi.Denial{Message: err.Error()}
	}
}
