//go:build !wasip1

package weir

import (
	"reflect"

	"weir.dev/weir/abi"
)

// Register makes hooks those of this module. It is called once, when the
// program is initialised: from an init function or a package variable.
// Outside of WebAssembly it does nothing.
func Register(Info, Hooks) {}

// nobody answers nothing.
type nobody struct{}

func (nobody) Lookup(_, _ []byte) int { return -int(abi.ENOSYS) }
func (nobody) Authorize(_ []byte) int { return -int(abi.ENOSYS) }

func lookuperOf(h Host) Lookuper {
	if l, ok := h.(Lookuper); ok {
		return l
	}
	return nobody{}
}

func authorizerOf(h Host) Authorizer {
	if a, ok := h.(Authorizer); ok {
		return a
	}
	return nobody{}
}

// checkSignatures panics if a method is named as a hook and is none.
func checkSignatures(strategy any, h Hooks) {
	t := reflect.TypeOf(strategy)
	for name, op := range map[string]abi.Op{
		"Configure": abi.OpConfigure, "Default": abi.OpDefault,
		"PrepareForCreate": abi.OpPrepareForCreate, "ValidateCreate": abi.OpValidateCreate,
		"PrepareForUpdate": abi.OpPrepareForUpdate, "ValidateUpdate": abi.OpValidateUpdate,
		"ValidateDelete": abi.OpValidateDelete, "Canonicalize": abi.OpCanonicalize,
		"StatusPrepare": abi.OpStatusPrepare, "StatusValidate": abi.OpStatusValidate,
		"WarningsOnCreate": abi.OpWarningsOnCreate, "WarningsOnUpdate": abi.OpWarningsOnUpdate,
		"Convert": abi.OpConvert, "Connect": abi.OpConnect,
		"AdmitMutate": abi.OpAdmitMutate, "AdmitValidate": abi.OpAdmitValidate,
	} {
		if m, ok := t.MethodByName(name); ok && h.run[op] == nil {
			panic("weir: " + t.String() + "." + name + " is no hook, for it is a " + m.Type.String())
		}
	}
}
