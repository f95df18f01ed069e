package hosttest

import (
	"encoding/json"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/internal/wasmtest"
)

// Value types in type strings of a [Builder].
const (
	I32 = wasmtest.I32
	I64 = wasmtest.I64
)

// Builder assembles a module.
type Builder = wasmtest.Builder

// Code is a sequence of instructions. Its methods append one each.
type Code = wasmtest.Code

// Where a [Guest] has its texts and buffers.
const (
	manifestAt = 1024
	textAt     = 8 << 10
	bufferAt   = 32 << 10 // free up to 64 KiB
)

// Guest is a hand-made guest with the imports of the contract.
type Guest struct {
	Builder
	manifest string
	textEnd  int32

	// Read, Query, Write and Log are function indexes.
	Read, Query, Write, Log uint32
	// Void, Unary and Nullary are the types func(), func(i32) i32 and
	// func() i32.
	Void, Unary, Nullary uint32
}

// NewGuest begins a guest that implements some hooks; none means all.
func NewGuest(name string, hooks ...abi.Op) *Guest {
	if len(hooks) == 0 {
		hooks = abi.Ops()
	}
	m := abi.Manifest{Name: name, Version: "1"}
	for _, op := range hooks {
		m.Hooks = append(m.Hooks, op.String())
	}
	raw, _ := json.Marshal(m) // strings always can be
	return newGuest(string(raw))
}

func newGuest(manifest string) *Guest {
	g := &Guest{manifest: manifest, textEnd: textAt}
	g.Void = g.Type("", "")
	g.Unary = g.Type(I32, I32)
	g.Nullary = g.Type("", I32)
	three, four, five := g.Type(I32+I32+I32, I32), g.Type(I32+I32+I32+I32, I32), g.Type(I32+I32+I32+I32+I32, I32)
	g.Read = g.Import(abi.ImportModule, abi.ImportRead, four)
	g.Query = g.Import(abi.ImportModule, abi.ImportQuery, five)
	g.Write = g.Import(abi.ImportModule, abi.ImportWrite, three)
	g.Log = g.Import(abi.ImportModule, abi.ImportLog, three)
	return g
}

// Text puts text into the memory and returns where.
func (g *Guest) Text(text string) (at, n int32) {
	at, n = g.textEnd, int32(len(text))
	g.Data(at, text)
	g.textEnd += n
	return at, n
}

// WriteText is code that writes a text to a slot.
func (g *Guest) WriteText(c Code, slot abi.Slot, text string) Code {
	at, n := g.Text(text)
	return c.I32Const(int32(slot)).I32Const(at).I32Const(n).Call(g.Write).Drop()
}

// Finish adds the exports of the contract and returns the module. Invoke is
// the body of weir_invoke, with the op in local 0 and four i32 locals more;
// if it falls through, the status is OK.
func (g *Guest) Finish(invoke Code) []byte {
	g.Memory(1)
	return g.finish(abi.ExportMarker, invoke)
}

func (g *Guest) finish(marker string, invoke Code) []byte {
	g.Func(marker, g.Void, "", nil)
	g.Data(manifestAt, g.manifest)
	g.Func(abi.ExportDescribe, g.Nullary, "", Code(nil).
		I32Const(int32(abi.SlotManifest)).I32Const(manifestAt).I32Const(int32(len(g.manifest))).Call(g.Write).Drop().
		I32Const(int32(abi.StatusOK)))
	g.Func(abi.ExportInvoke, g.Unary, I32+I32+I32+I32, append(invoke, Code(nil).I32Const(int32(abi.StatusOK))...))
	g.Names()
	return g.Bytes()
}

// Echo is a guest that writes the object, as it was read, to the output of
// every hook that has one, and an audit annotation. The object may have up
// to 32,000 bytes.
func Echo(name string) []byte {
	g := NewGuest(name, abi.OpPrepareForCreate, abi.OpValidateCreate, abi.OpConnect)
	code := g.WriteText(nil, abi.SlotResult, `{"audit":{"by":"`+name+`"}}`)
	code = code.
		I32Const(int32(abi.SlotObject)).I32Const(0).I32Const(bufferAt).I32Const(32_000).Call(g.Read).LocalSet(1).
		LocalGet(0).I32Const(int32(abi.OpValidateCreate)).Op(opI32Ne).If(
		Code(nil).I32Const(int32(abi.SlotObjectOut)).I32Const(bufferAt).LocalGet(1).Call(g.Write).Drop())
	return g.Finish(code)
}

// Opcodes without immediates.
const (
	opI32Eqz = 0x45
	opI32Eq  = 0x46
	opI32Ne  = 0x47
	opI32LtS = 0x48
	opI32LtU = 0x49
	opI32Add = 0x6a
	opI32Sub = 0x6b
	opI32Mul = 0x6c
)
