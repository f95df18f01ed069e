package rego

import "fmt"

// guestCode writes the functions of a guest.
type guestCode struct {
	module *moduleParts
	err    error // the first
}

// Instructions.
const (
	opBlock    = 0x02
	opLoop     = 0x03
	opIf       = 0x04
	opElse     = 0x05
	opEnd      = 0x0b
	opBr       = 0x0c
	opBrIf     = 0x0d
	opReturn   = 0x0f
	opCall     = 0x10
	opDrop     = 0x1a
	opGet      = 0x20
	opSet      = 0x21
	opTee      = 0x22
	opLoad8U   = 0x2d
	opStore8   = 0x3a
	opConst    = 0x41
	opEqz      = 0x45
	opNe       = 0x47
	opLtS      = 0x48
	opLtU      = 0x49
	opAdd      = 0x6a
	opSub      = 0x6b
	opVoid     = 0x40
	opConst64  = 0x42
	opStore64  = 0x37
	statusDone = 0
)

// Statuses of weir_invoke, ops and slots of package abi, which a test compares.
const (
	statusUnimplemented = 1
	statusFailed        = 2
	hookAdmitValidate   = 16
	slotResult          = 16
	slotManifest        = 19
)

// slots are what the input of a policy is made of.
var slots = []struct {
	name string
	slot int64
}{{"meta", 0}, {"object", 1}, {"oldObject", 2}, {"settings", 4}, {"params", 5}, {"namespaceObject", 6}} // never written to

func (g *guestCode) number(b []byte, n int64) []byte { return appendInt(append(b, opConst), n) }

func (g *guestCode) local(b []byte, op byte, n uint64) []byte { return appendUint(append(b, op), n) }

func (g *guestCode) call(b []byte, name string) []byte {
	index, ok := g.module.exports[name]
	if !ok {
		index, ok = g.module.imports[name]
	}
	if !ok && g.err == nil {
		g.err = fmt.Errorf("%w: it has no function %s", errModule, name)
	}
	return appendUint(append(b, opCall), index)
}

// text stores s at the address in a local.
func (g *guestCode) text(b []byte, local uint64, s string) []byte {
	for i := 0; i < len(s); {
		b = g.local(b, opGet, local)
		if len(s)-i >= 8 {
			n := uint64(0)
			for k := range 8 {
				n |= uint64(s[i+k]) << (8 * k)
			}
			b = appendInt(append(b, opConst64), int64(n)) //nolint:gosec // its bits
			b = appendUint(append(b, opStore64, 0), uint64(i))
			i += 8
			continue
		}
		b = g.number(b, int64(s[i]))
		b = appendUint(append(b, opStore8, 0), uint64(i))
		i++
	}
	return b
}

// advance adds n to a local.
func (g *guestCode) advance(b []byte, local uint64, n int) []byte {
	b = g.number(g.local(b, opGet, local), int64(n))
	return g.local(append(b, opAdd), opSet, local)
}

// describe is weir_describe, with local 0 for the address of the manifest.
func (g *guestCode) describe(manifest string) []byte {
	b := g.local(g.call(g.number(nil, int64(len(manifest))), "opa_malloc"), opSet, 0)
	b = g.text(b, 0, manifest)
	b = g.number(b, slotManifest)
	b = g.number(g.local(b, opGet, 0), int64(len(manifest)))
	b = append(g.call(b, "opa_builtin1"), opDrop)
	return append(g.number(b, statusDone), opEnd)
}

// Locals of weir_invoke.
const (
	localOp = iota // its parameter
	localData
	localInput
	localAt
	localLength
	localResult
	localSize    // of the input, at most
	invokeLocals = localSize
)

// invoke is weir_invoke.
func (g *guestCode) invoke() []byte {
	b := g.number(g.local(nil, opGet, localOp), hookAdmitValidate)
	b = append(b, opNe, opIf, opVoid)
	b = append(g.number(b, statusUnimplemented), opReturn, opEnd)

	// data is {}.
	b = g.local(g.call(g.number(b, 8), "opa_malloc"), opSet, localData)
	b = g.text(b, localData, "{}")
	b = g.call(g.number(g.local(b, opGet, localData), 2), "opa_json_parse")
	b = g.local(b, opSet, localData)

	// How much the input takes.
	fixed := 16
	for _, s := range slots {
		fixed += len(s.name) + len(`"":,null`)
	}
	b = g.local(g.number(b, int64(fixed)), opSet, localSize)
	for _, s := range slots {
		b = g.number(g.number(g.number(g.number(b, s.slot), 0), 0), 0)
		b = g.local(g.call(b, "opa_builtin2"), opTee, localLength)
		b = append(g.number(b, 0), opLtS, opEqz, opIf, opVoid)
		b = g.local(g.local(b, opGet, localSize), opGet, localLength)
		b = append(g.local(append(b, opAdd), opSet, localSize), opEnd)
	}
	b = g.call(g.local(b, opGet, localSize), "opa_malloc")
	b = g.local(g.local(b, opTee, localInput), opSet, localAt)

	for i, s := range slots {
		key := `,"` + s.name + `":`
		if i == 0 {
			key = `{"` + s.name + `":`
		}
		b = g.advance(g.text(b, localAt, key), localAt, len(key))
		b = g.local(g.number(g.number(b, s.slot), 0), opGet, localAt)
		b = g.local(g.local(b, opGet, localInput), opGet, localSize) // what is left: input + size - at
		b = append(g.local(append(b, opAdd), opGet, localAt), opSub)
		b = g.local(g.call(b, "opa_builtin2"), opTee, localLength)
		b = append(g.number(b, 0), opLtS, opIf, opVoid)
		b = g.text(b, localAt, "null")
		b = append(g.local(g.number(b, 4), opSet, localLength), opEnd)
		b = g.local(g.local(b, opGet, localAt), opGet, localLength)
		b = g.local(append(b, opAdd), opSet, localAt)
	}
	b = g.advance(g.text(b, localAt, "}"), localAt, 1)

	// opa_eval(0, entrypoint, data, input, length, heap, format JSON)
	b = g.local(g.number(g.number(b, 0), 0), opGet, localData)
	b = g.local(b, opGet, localInput)
	b = append(g.local(g.local(b, opGet, localAt), opGet, localInput), opSub)
	b = g.number(g.call(b, "opa_heap_ptr_get"), 0)
	b = g.call(b, "opa_eval")
	b = g.local(g.local(b, opTee, localResult), opSet, localAt)

	// Its length: it ends with 0.
	b = append(b, opBlock, opVoid, opLoop, opVoid)
	b = append(g.local(b, opGet, localAt), opLoad8U, 0, 0, opEqz, opBrIf, 1)
	b = append(g.advance(b, localAt, 1), opBr, 0, opEnd, opEnd)

	// [{"result":…}]
	const before, after = len(`[{"` + resultVar + `":`), len(`}]`)
	b = append(g.local(g.local(b, opGet, localAt), opGet, localResult), opSub)
	b = g.number(g.local(b, opTee, localLength), int64(before+after+2))
	b = append(b, opLtU, opIf, opVoid)
	b = append(g.number(b, statusFailed), opReturn, opEnd)
	b = g.local(g.number(b, slotResult), opGet, localResult)
	b = append(g.number(b, int64(before)), opAdd)
	b = append(g.number(g.local(b, opGet, localLength), int64(before+after)), opSub)
	b = append(g.call(b, "opa_builtin1"), opDrop)
	return append(g.number(b, statusDone), opEnd)
}
