package host

import (
	"errors"

	"weir.dev/weir/abi"
)

// Class says in what way a guest failed.
type Class uint8

// Classes of failure. Their numbers may change; the labels do not.
const (
	// ClassTrap: the guest trapped, exited, or said that it failed.
	ClassTrap Class = iota + 1
	// ClassFuel: the call or the request used up its instructions.
	ClassFuel
	// ClassDeadline: the request's time was up.
	ClassDeadline
	// ClassMemory: the guest trapped after it was refused more memory.
	ClassMemory
	// ClassDepth: calls were nested too deep.
	ClassDepth
	// ClassCapability: the guest wants what it was not granted.
	ClassCapability
	// ClassBadOutput: what the guest wrote is not what it may write.
	ClassBadOutput
	// ClassABIMismatch: the module is not a guest of this host.
	ClassABIMismatch
	// ClassNotReady: the module is not loaded, refused its settings, or was
	// closed; or what it looks up cannot be told now.
	ClassNotReady
)

var classLabels = [...]string{
	ClassTrap:        "trap",
	ClassFuel:        "fuel",
	ClassDeadline:    "deadline",
	ClassMemory:      "memory",
	ClassDepth:       "depth",
	ClassCapability:  "capability",
	ClassBadOutput:   "bad_output",
	ClassABIMismatch: "abi_mismatch",
	ClassNotReady:    "not_ready",
}

// String is the class as a metric label: bad_output.
func (c Class) String() string {
	if c == 0 || int(c) >= len(classLabels) {
		return "unknown"
	}
	return classLabels[c]
}

// Error is a failure of a guest. Its text names the module and the hook:
//
//	module[quota] hook[prepareForCreate]: fuel exhausted after 50000000 units
type Error struct {
	// Module is the name the module was loaded under; Inspect has none.
	Module string
	// Op is the hook, or 0 if the module was being loaded or described.
	Op abi.Op
	// Class of the failure.
	Class Class
	// Message for the user: what happened, without the names.
	Message string
	// Trace is the guest's stack, for logs; often empty.
	Trace string
	// Fuel used by the call until it failed.
	Fuel uint64
	// Lookups are the records of what the guest looked up before it failed.
	Lookups []Lookup
	// Missing are the capabilities that a module asks for and was not granted.
	Missing []string
	// Err is the cause, if there is one.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Message
	if e.Op != 0 {
		text = "hook[" + e.Op.String() + "]: " + text
	}
	switch {
	case e.Module == "":
		return text
	case e.Op != 0:
		return "module[" + e.Module + "] " + text
	}
	return "module[" + e.Module + "]: " + text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class of the first [Error] in err's chain.
func ClassOf(err error) (Class, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Class, true
	}
	return 0, false
}
