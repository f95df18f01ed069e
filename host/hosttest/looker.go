package hosttest

import (
	"encoding/json"

	"weir.dev/weir/abi"
)

// NewAskingGuest begins a guest that asks for capabilities and implements some
// hooks. It returns the function indexes of lookup and authorize, which are
// imported if it asks for them.
func NewAskingGuest(name string, capabilities []string, hooks ...abi.Op) (g *Guest, lookup, authorize uint32) {
	g = newGuest(askingManifest(name, capabilities, hooks))
	for _, c := range capabilities {
		switch {
		case c == abi.CapabilityAuthorize:
			authorize = g.Import(abi.ImportModule, abi.ImportAuthorize, g.Type(I32+I32, I32))
		case lookup == 0:
			lookup = g.Import(abi.ImportModule, abi.ImportLookup, g.Type(I32+I32+I32+I32, I32))
		}
	}
	return g, lookup, authorize
}

// Looker is a guest that asks for capabilities and, in the hooks connect and
// configure, looks requests up in their order: each with no buffer, and then with
// one of 30,000 bytes. Connect responds with the last answer. If the host refuses
// a request, the status is 100 and the errno.
func Looker(capabilities, requests []string, hooks ...abi.Op) []byte {
	g := newGuest(askingManifest("looker", capabilities, hooks))
	lookup := g.Import(abi.ImportModule, abi.ImportLookup, g.Type(I32+I32+I32+I32, I32))
	var code Code
	for _, r := range requests {
		at, n := g.Text(r)
		for _, size := range []int32{0, 30_000} {
			code = code.I32Const(at).I32Const(n).I32Const(bufferAt).I32Const(size).Call(lookup).LocalTee(1).
				I32Const(0).Op(opI32LtS).If(Code(nil).I32Const(100).LocalGet(1).Op(opI32Sub).Return())
		}
	}
	code = code.LocalGet(0).I32Const(int32(abi.OpConnect)).Op(opI32Eq).If(
		Code(nil).I32Const(int32(abi.SlotObjectOut)).I32Const(bufferAt).LocalGet(1).Call(g.Write).Drop())
	return g.Finish(code)
}

// Supplicant is a guest that asks to authorize a request in validateCreate, some
// times. The status is 0 if the last was allowed, 50 if not, 100 and the errno if
// the host refuses one.
func Supplicant(capabilities []string, request string, times int) []byte {
	g := newGuest(askingManifest("supplicant", capabilities, []abi.Op{abi.OpValidateCreate}))
	authorize := g.Import(abi.ImportModule, abi.ImportAuthorize, g.Type(I32+I32, I32))
	at, n := g.Text(request)
	var code Code
	for range times {
		code = code.I32Const(at).I32Const(n).Call(authorize).LocalTee(1).
			I32Const(0).Op(opI32LtS).If(Code(nil).I32Const(100).LocalGet(1).Op(opI32Sub).Return())
	}
	return g.Finish(code.LocalGet(1).Op(opI32Eqz).If(Code(nil).I32Const(50).Return()))
}

func askingManifest(name string, capabilities []string, hooks []abi.Op) string {
	m := abi.Manifest{Name: name, Version: "1", Capabilities: capabilities}
	for _, op := range hooks {
		m.Hooks = append(m.Hooks, op.String())
	}
	raw, _ := json.Marshal(m) // strings always can be
	return string(raw)
}
