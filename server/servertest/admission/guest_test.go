package admission

import (
	"encoding/base64"
	"encoding/binary"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/hosttest"
)

// Opcodes without immediates.
const (
	opI32Eq = 0x46
	opI32Ne = 0x47
)

// bufferAt is free memory of a hosttest.Guest.
const bufferAt = 40 << 10

// stamp is a guest that writes its version, of four characters, to data.v of every object,
// and then refuses the object unless it finds it there: a request that met two versions of
// it would fail.
func stamp(version string) []byte {
	if len(version) != 4 {
		panic("a version has four characters")
	}
	g := hosttest.NewGuest("stamp", abi.OpAdmitMutate, abi.OpAdmitValidate)
	path, pathLen := g.Text("data.v")
	mutate := g.WriteText(nil, abi.SlotPatch, `[{"op":"add","path":"/data/v","value":"`+version+`"}]`)
	refuse := g.WriteText(nil, abi.SlotResult, `{"denied":{"message":"was stamped by another version than `+version+`"}}`)
	want := int32(binary.LittleEndian.Uint32([]byte(version))) //nolint:gosec // four bytes as they are
	validate := hosttest.Code(nil).
		I32Const(int32(abi.SlotObject)).I32Const(path).I32Const(pathLen).I32Const(bufferAt).I32Const(100).Call(g.Query).Drop().
		I32Const(bufferAt + 1).Load(0).I32Const(want).Op(opI32Ne).If(refuse)
	return g.Finish(hosttest.Code(nil).
		LocalGet(0).I32Const(int32(abi.OpAdmitMutate)).Op(opI32Eq).If(mutate).
		LocalGet(0).I32Const(int32(abi.OpAdmitValidate)).Op(opI32Eq).If(validate))
}

// module is a Module that has its bytes in itself. Its calls may take as long as a machine
// that does much else needs for them.
func module(name string, wasm []byte) object {
	return of("weir.dev/v1alpha1", "Module", name, object{
		"source": object{"inline": base64.StdEncoding.EncodeToString(wasm)}, "limits": object{"timeoutMilliseconds": patience.Milliseconds()}})
}
