package abi

// Op is what weir_invoke is asked to do: one hook. The numbers are the wire
// format and never change.
//
// "In" lists the input slots that are set beside [SlotMeta] and
// [SlotSettings], which always are; "out" what a guest may write beside
// [SlotResult]. Where out is "object", the guest writes the whole new object
// to [SlotObjectOut] or a JSON patch of the input object to [SlotPatch], or
// neither when it changes nothing.
type Op int32

const (
	// OpConfigure is called once, after weir_describe. In: settings only
	// (no meta). Errors or a denial refuse the settings, and the module is
	// not put to use. What the guest keeps in memory here is what every
	// later call starts from.
	OpConfigure Op = 1
	// OpDefault fills in defaults. In: object. Out: object.
	OpDefault Op = 2
	// OpPrepareForCreate normalises a new object. In: object, options
	// (CreateOptions). Out: object.
	OpPrepareForCreate Op = 3
	// OpValidateCreate judges a new object. In: object, options.
	OpValidateCreate Op = 4
	// OpPrepareForUpdate normalises a changed object. In: object,
	// oldObject, options (UpdateOptions). Out: object.
	OpPrepareForUpdate Op = 5
	// OpValidateUpdate judges a change. In: object, oldObject, options.
	OpValidateUpdate Op = 6
	// OpValidateDelete judges a deletion. In: oldObject (what is to be
	// deleted), options (DeleteOptions).
	OpValidateDelete Op = 7
	// OpCanonicalize rewrites a validated object into its stored form; it
	// cannot refuse. In: object. Out: object.
	OpCanonicalize Op = 8
	// OpStatusPrepare normalises a write to the status subresource. In:
	// object, oldObject, options. Out: object.
	OpStatusPrepare Op = 9
	// OpStatusValidate judges a write to the status subresource. In:
	// object, oldObject, options.
	OpStatusValidate Op = 10
	// OpWarningsOnCreate only gives warnings. In: object.
	OpWarningsOnCreate Op = 11
	// OpWarningsOnUpdate only gives warnings. In: object, oldObject.
	OpWarningsOnUpdate Op = 12
	// OpConvert converts between versions of one kind. In: object, a JSON
	// array of objects, and targetVersion, a JSON string such as
	// "apps/v1". Out: object, an array of the same length and order.
	OpConvert Op = 13
	// OpConnect answers a request to a subresource of the guest's own. In:
	// object (the parent), options (the request's body or options). Out:
	// object, the response; a patch is not accepted.
	OpConnect Op = 14
	// OpAdmitMutate is mutating admission. In: object (absent on DELETE),
	// oldObject (absent on CREATE), options, params, namespace. Out: object.
	OpAdmitMutate Op = 15
	// OpAdmitValidate is validating admission. In: as OpAdmitMutate.
	OpAdmitValidate Op = 16
)

// opNames is indexed by Op.
var opNames = [...]string{
	OpConfigure:        "configure",
	OpDefault:          "default",
	OpPrepareForCreate: "prepareForCreate",
	OpValidateCreate:   "validateCreate",
	OpPrepareForUpdate: "prepareForUpdate",
	OpValidateUpdate:   "validateUpdate",
	OpValidateDelete:   "validateDelete",
	OpCanonicalize:     "canonicalize",
	OpStatusPrepare:    "statusPrepare",
	OpStatusValidate:   "statusValidate",
	OpWarningsOnCreate: "warningsOnCreate",
	OpWarningsOnUpdate: "warningsOnUpdate",
	OpConvert:          "convert",
	OpConnect:          "connect",
	OpAdmitMutate:      "admitMutate",
	OpAdmitValidate:    "admitValidate",
}

// String is the op's name as it stands in [Manifest.Hooks], in errors and in
// metric labels: prepareForCreate. An op that does not exist is "unknown".
func (op Op) String() string {
	if !op.Valid() {
		return "unknown"
	}
	return opNames[op]
}

// Valid tells whether this version of the contract has op.
func (op Op) Valid() bool { return op >= OpConfigure && int(op) < len(opNames) }

// Mutates tells whether a guest may write [SlotObjectOut] in op.
func (op Op) Mutates() bool {
	switch op {
	case OpDefault, OpPrepareForCreate, OpPrepareForUpdate, OpCanonicalize,
		OpStatusPrepare, OpConvert, OpConnect, OpAdmitMutate:
		return true
	}
	return false
}

// AcceptsPatch tells whether a guest may write [SlotPatch] in op.
func (op Op) AcceptsPatch() bool {
	return op.Mutates() && op != OpConvert && op != OpConnect
}

// ParseOp is the inverse of [Op.String].
func ParseOp(name string) (Op, bool) {
	for op := OpConfigure; op.Valid(); op++ {
		if opNames[op] == name {
			return op, true
		}
	}
	return 0, false
}

// Ops returns every op of this version in the order of their numbers.
func Ops() []Op {
	ops := make([]Op, 0, len(opNames)-1)
	for op := OpConfigure; op.Valid(); op++ {
		ops = append(ops, op)
	}
	return ops
}

// OpSet is a set of ops; bit n stands for Op(n).
type OpSet uint32

// With returns s with op added.
func (s OpSet) With(op Op) OpSet {
	if !op.Valid() {
		return s
	}
	return s | 1<<uint(op)
}

// Has tells whether op is in s.
func (s OpSet) Has(op Op) bool { return op.Valid() && s&(1<<uint(op)) != 0 }

// Status is what weir_invoke and weir_describe return. Anything else is a
// broken guest.
type Status int32

const (
	// StatusOK says that the hook ran to its end. The verdict is in
	// [SlotResult]; nothing written there means: no objection.
	StatusOK Status = 0
	// StatusUnimplemented says that the guest has no such hook.
	StatusUnimplemented Status = 1
	// StatusFailed says that the guest could not decide (it could not
	// decode its input, it panicked). [Result.Failure] says why; the rest
	// of the result is ignored. The host treats it as it does a trap.
	StatusFailed Status = 2
)
