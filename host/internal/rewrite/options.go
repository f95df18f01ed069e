package rewrite

import "fmt"

// Options bound what a module may be.
type Options struct {
	// Import tells whether a function of this name and type may be
	// imported. Nothing else can be.
	Import func(module, name string, t FuncType) error
	// ModuleBytes is the largest module; 0 means no bound.
	ModuleBytes int
	// MemoryPages is the most memory in pages of 64 KiB. The rewritten
	// module declares one page more, so that its memory can be shrunk
	// through the engine's API; the allocator has to enforce the limit.
	MemoryPages uint32
	// AnyMemory accepts a module without a memory, or one that does not
	// export it.
	AnyMemory bool
	// Depth is the deepest call, counted over functions that call.
	Depth uint32
}

// Fixed limits of the gate. They are far above what compilers of any
// language emit for a module that fits in 16 MiB, and bound what the engine
// allocates for a hostile one.
const (
	maxTypes     = 1 << 14
	maxParams    = 256
	maxImports   = 256
	maxFunctions = 1 << 16
	maxGlobals   = 1 << 12
	maxExports   = 1 << 12
	maxSegments  = 1 << 16
	maxTables    = 8
	maxTable     = 1 << 16 // entries
	maxLocals    = 1 << 12 // of one function
	maxNesting   = 1 << 12
	maxLoops     = 1 << 7  // nested in each other; they become twice as many
	maxPages     = 1 << 16 // that 32 bits address
)

// Kind says what is wrong with a module.
type Kind int

// Kinds of errors.
const (
	// Malformed is not a module, or uses what the host does not support.
	Malformed Kind = iota
	// Limit is a module over a limit of the gate.
	Limit
	// Memory is a module that asks for more memory than it may have.
	Memory
	// Import is an import that is not allowed.
	Import
	// ABI is a module without the exports of a guest.
	ABI
)

// Error is why the gate refused a module.
type Error struct {
	Kind Kind
	Msg  string
	// Err is what Options.Import said; of other kinds nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Msg }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

func malformed(format string, args ...any) *Error {
	return &Error{Kind: Malformed, Msg: fmt.Sprintf(format, args...)}
}

// FuncType is the type of a function: value types as the binary format
// spells them.
type FuncType struct{ Params, Results string }

// Value types.
const (
	I32 = 0x7f
	I64 = 0x7e
	F32 = 0x7d
	F64 = 0x7c
)

// ImportName names an imported function.
type ImportName struct{ Module, Name string }

// Module is a module that was rewritten.
type Module struct {
	// Bytes of the rewritten module.
	Bytes []byte
	// Imports are the functions that it imports, in order, each name once.
	Imports []ImportName
	// Exports are the names and types of the functions that the original
	// exports.
	Exports map[string]FuncType
	// Globals are the export names of its mutable globals.
	Globals []string
	// Start is set if there is a start function.
	Start bool
	// Resettable is false if the guest can change state that is neither
	// memory nor an exported numeric global: tables, dropped segments.
	Resettable bool
	// MemoryPages is the declared minimum.
	MemoryPages uint32
}
