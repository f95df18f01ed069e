//go:build wasip1

package weir

import (
	"unsafe"

	"weir.dev/weir/abi"
)

//go:wasmimport weir.v1 read
func importRead(slot, off int32, buf unsafe.Pointer, size int32) int32

//go:wasmimport weir.v1 query
func importQuery(slot int32, path unsafe.Pointer, n int32, buf unsafe.Pointer, size int32) int32

//go:wasmimport weir.v1 write
func importWrite(slot int32, data unsafe.Pointer, n int32) int32

//go:wasmimport weir.v1 lookup
func importLookup(request unsafe.Pointer, n int32, buf unsafe.Pointer, size int32) int32

//go:wasmimport weir.v1 authorize
func importAuthorize(request unsafe.Pointer, n int32) int32

//go:wasmimport weir.v1 log
func importLog(level int32, line unsafe.Pointer, n int32) int32

// imports is the Host of a guest.
type imports struct{}

var _ Host = imports{}

func (imports) Read(slot abi.Slot, off int, buf []byte) int {
	return int(importRead(int32(slot), int32(off), unsafe.Pointer(unsafe.SliceData(buf)), int32(len(buf))))
}

func (imports) Query(slot abi.Slot, path string, buf []byte) int {
	return int(importQuery(int32(slot), unsafe.Pointer(unsafe.StringData(path)), int32(len(path)),
		unsafe.Pointer(unsafe.SliceData(buf)), int32(len(buf))))
}

func (imports) Write(slot abi.Slot, data []byte) int {
	return int(importWrite(int32(slot), unsafe.Pointer(unsafe.SliceData(data)), int32(len(data))))
}

func (imports) Log(level abi.LogLevel, line string) int {
	return int(importLog(int32(level), unsafe.Pointer(unsafe.StringData(line)), int32(len(line))))
}

// lookups is the Lookuper of a guest.
type lookups struct{}

func (lookups) Lookup(request, buf []byte) int {
	return int(importLookup(unsafe.Pointer(unsafe.SliceData(request)), int32(len(request)),
		unsafe.Pointer(unsafe.SliceData(buf)), int32(len(buf))))
}

func lookuperOf(Host) Lookuper { return lookups{} }

// authorizations is the Authorizer of a guest.
type authorizations struct{}

func (authorizations) Authorize(request []byte) int {
	return int(importAuthorize(unsafe.Pointer(unsafe.SliceData(request)), int32(len(request))))
}

func authorizerOf(Host) Authorizer { return authorizations{} }

// registered is the module. Exports have no argument to pass it in.
var registered struct {
	info  Info
	hooks Hooks
	// arena is for the answers of the next call. What a call took of it is
	// not used again, since the hook may have kept strings that refer to it,
	// but for the host's putting memory back after each call.
	arena []byte
}

// Register makes hooks those of this module. It is called once, when the
// program is initialised: from an init function or a package variable.
func Register(info Info, hooks Hooks) {
	registered.info, registered.hooks = info, hooks
	registered.arena = make([]byte, 4*arenaBytes)
}

//go:wasmexport weir_abi_v1
func exportMarker() {}

//go:wasmexport weir_describe
func exportDescribe() int32 {
	return int32(registered.hooks.Describe(imports{}, registered.info))
}

//go:wasmexport weir_invoke
func exportInvoke(op int32) int32 {
	status, rest := registered.hooks.invoke(imports{}, abi.Op(op), registered.arena)
	registered.arena = rest
	return int32(status)
}

// checkSignatures is for tests: reflection on methods would keep every method
// of every type in the module.
func checkSignatures(any, Hooks) {}
