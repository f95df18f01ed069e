package weir

import (
	"weir.dev/weir/abi"
	"weir.dev/weir/sdk/go/internal/codec"
)

// Hooks are the hooks of a module; [For] makes them.
type Hooks struct {
	codec *codec.Codec
	run   [abi.OpAdmitValidate + 1]func(*Context)
}

// Ops returns the ops of the hooks, in the order of their numbers.
func (h Hooks) Ops() []abi.Op {
	var ops []abi.Op
	for op, run := range h.run {
		if run != nil {
			ops = append(ops, abi.Op(op))
		}
	}
	return ops
}

// For returns the hooks that a strategy implements for objects of type T, a
// struct. A hook that takes an [Object] is found too. Outside of WebAssembly
// For panics if a method is named as a hook and has another signature. A strategy
// that is no [Configurer] has no settings: it refuses any.
func For[T any](strategy any) Hooks {
	h := Hooks{codec: codec.New()}
	h.codec.Learn(new(T))
	h.codec.Learn(&abi.Meta{})
	h.codec.Learn(&abi.Result{})
	if s, ok := strategy.(Configurer); ok {
		h.run[abi.OpConfigure] = func(c *Context) { c.configure(s) }
	}
	if s, ok := strategy.(Converter); ok {
		h.run[abi.OpConvert] = func(c *Context) { c.convert(s) }
	}
	typed[T](&h, strategy)
	typed[Object](&h, strategy)
	checkSignatures(strategy, h)
	if h.run[abi.OpConfigure] == nil {
		h.run[abi.OpConfigure] = func(c *Context) { c.configure(nil) }
	}
	return h
}

// Learn prepares for the types that values point to, which hooks decode or look up
// only now and then: what the calls that warm a module up do not come to is
// otherwise got to know in each call anew, for its memory is put back.
func (h Hooks) Learn(values ...any) Hooks {
	h.codec.Learn(&abi.LookupRequest{})
	h.codec.Learn(&abi.AuthorizeRequest{})
	for _, v := range values {
		h.codec.Learn(v)
		h.codec.Fields(v)
	}
	return h
}

// typed adds the hooks for T that are not there yet.
func typed[T any](h *Hooks, strategy any) {
	add := func(op abi.Op, run func(*Context)) {
		if h.run[op] == nil {
			h.run[op] = run
		}
	}
	if s, ok := strategy.(Defaulter[T]); ok {
		add(abi.OpDefault, change(s.Default))
	}
	if s, ok := strategy.(CreatePreparer[T]); ok {
		add(abi.OpPrepareForCreate, change(s.PrepareForCreate))
	}
	if s, ok := strategy.(CreateValidator[T]); ok {
		add(abi.OpValidateCreate, judge(s.ValidateCreate))
	}
	if s, ok := strategy.(UpdatePreparer[T]); ok {
		add(abi.OpPrepareForUpdate, changeUpdate(s.PrepareForUpdate))
	}
	if s, ok := strategy.(UpdateValidator[T]); ok {
		add(abi.OpValidateUpdate, judgeUpdate(s.ValidateUpdate))
	}
	if s, ok := strategy.(DeleteValidator[T]); ok {
		add(abi.OpValidateDelete, func(c *Context) { c.refuse(s.ValidateDelete(c, must[T](c, abi.SlotOldObject))) })
	}
	if s, ok := strategy.(Canonicalizer[T]); ok {
		add(abi.OpCanonicalize, change(s.Canonicalize))
	}
	if s, ok := strategy.(StatusPreparer[T]); ok {
		add(abi.OpStatusPrepare, changeUpdate(s.StatusPrepare))
	}
	if s, ok := strategy.(StatusValidator[T]); ok {
		add(abi.OpStatusValidate, judgeUpdate(s.StatusValidate))
	}
	if s, ok := strategy.(CreateWarner[T]); ok {
		add(abi.OpWarningsOnCreate, func(c *Context) {
			c.Warn(s.WarningsOnCreate(c, must[T](c, abi.SlotObject))...)
		})
	}
	if s, ok := strategy.(UpdateWarner[T]); ok {
		add(abi.OpWarningsOnUpdate, func(c *Context) {
			c.Warn(s.WarningsOnUpdate(c, must[T](c, abi.SlotObject), must[T](c, abi.SlotOldObject))...)
		})
	}
	if s, ok := strategy.(MutatingAdmitter[T]); ok {
		add(abi.OpAdmitMutate, func(c *Context) {
			obj := input[T](c, abi.SlotObject)
			c.refuse(s.AdmitMutate(c, obj, input[T](c, abi.SlotOldObject)))
			if obj != nil {
				output(c, obj)
			}
		})
	}
	if s, ok := strategy.(ValidatingAdmitter[T]); ok {
		add(abi.OpAdmitValidate, func(c *Context) {
			c.refuse(s.AdmitValidate(c, input[T](c, abi.SlotObject), input[T](c, abi.SlotOldObject)))
		})
	}
	if s, ok := strategy.(Connecter[T]); ok {
		add(abi.OpConnect, func(c *Context) {
			response, err := s.Connect(c, must[T](c, abi.SlotObject))
			c.refuse(err)
			if err == nil {
				c.write(abi.SlotObjectOut, c.encode(response))
			}
		})
	}
}

func change[T any](f func(*Context, *T)) func(*Context) {
	return func(c *Context) {
		obj := must[T](c, abi.SlotObject)
		f(c, obj)
		output(c, obj)
	}
}

func changeUpdate[T any](f func(c *Context, obj, old *T)) func(*Context) {
	return func(c *Context) {
		obj := must[T](c, abi.SlotObject)
		f(c, obj, must[T](c, abi.SlotOldObject))
		output(c, obj)
	}
}

func judge[T any](f func(*Context, *T) ErrorList) func(*Context) {
	return func(c *Context) { c.refuse(f(c, must[T](c, abi.SlotObject))) }
}

func judgeUpdate[T any](f func(c *Context, obj, old *T) ErrorList) func(*Context) {
	return func(c *Context) { c.refuse(f(c, must[T](c, abi.SlotObject), must[T](c, abi.SlotOldObject))) }
}

// input decodes a slot; nil if it is absent.
func input[T any](c *Context, slot abi.Slot) *T {
	v := new(T)
	if o, ok := any(v).(*Object); ok {
		o.View = View{ctx: c, slot: slot}
		if !o.Has("") {
			return nil
		}
		return v
	}
	raw := c.readOutline(slot, c.codec.Outline(v))
	if raw == nil {
		return nil
	}
	if err := c.codec.Decode(raw, v); err != nil {
		c.undecodable(slot, "", err)
	}
	return v
}

// must is input of a slot that the op always has.
func must[T any](c *Context, slot abi.Slot) *T {
	v := input[T](c, slot)
	if v == nil {
		panic(failure(slot.String() + " is absent"))
	}
	return v
}

// output writes what a hook has changed.
func output[T any](c *Context, v *T) {
	var patch []byte
	if o, ok := any(v).(*Object); ok {
		patch = o.patch
		if patch != nil {
			patch = append(patch, ']')
		}
	} else {
		var err error
		if patch, err = c.codec.Diff(c.readOutline(abi.SlotObject, c.codec.Outline(v)), v); err != nil {
			panic(failure("changes to the object: " + err.Error()))
		}
	}
	if patch != nil {
		c.write(abi.SlotPatch, patch)
	}
}
