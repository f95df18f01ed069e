package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
)

// Call is one invocation of a hook. Nothing in it is changed; documents may
// be shared by calls and are not copied before a guest asks for them.
type Call struct {
	// Op is the hook.
	Op abi.Op
	// Meta is an abi.Meta, made once a request by [NewMeta]. Without it the
	// guest sees the start of 1970 and no uid.
	Meta *document.Document
	// The other input slots; nil is absent.
	Object, OldObject, Options, Params, Namespace *document.Document
	// ReadNamespace gives what is in the slot of Namespace, which is then nil, when the guest first reads that: at most once,
	// within the time that the call has left. It may give nil. Its error stops the guest, is the cause of the Error and of
	// [ClassNotReady]; nil: there is Namespace alone.
	ReadNamespace func(context.Context) (*document.Document, error)
	// TargetVersion of a conversion, "group/version".
	TargetVersion string
	// Budget of the request; nil means that only the module's limits hold.
	Budget *Budget
	// Lookuper and Authorizer answer the guest in place of those of the
	// ModuleConfig.
	Lookuper   Lookuper
	Authorizer Authorizer
	// Trace is told of every call that the guest makes of an import of
	// package abi, in order; nil: nobody is.
	Trace func(ImportCall)
}

// ImportCall is what a guest asked of the host.
type ImportCall struct {
	// Import is its name: abi.ImportQuery.
	Import string
	// Slot is the first argument of read, query and write; of the log import
	// the level.
	Slot abi.Slot
	// Path of a query.
	Path string
	// Data is what was answered, if it fitted, or what was written or
	// logged; of lookup and authorize the request. It is only valid while
	// Trace runs.
	Data []byte
	// Returned by the import: a length, or minus an abi.Errno.
	Returned int32
	// Fuel that it took.
	Fuel int64
	// Lookup is the record of a look-up; nil if there was none, since it was
	// refused, or asked again with a larger buffer.
	Lookup *Lookup
}

// Result is what a hook answered.
type Result struct {
	// Object is the new object (for convert the array of objects, for
	// connect the response); nil when the guest changed nothing.
	Object *document.Document
	// Errors make the object invalid.
	Errors []abi.FieldError
	// Denied refuses the request; its Code is set.
	Denied *abi.Denial
	// Warnings for the client.
	Warnings []string
	// Audit annotations.
	Audit map[string]string
	// Lookups are the records of what the guest looked up, in order.
	Lookups []Lookup
	// Fuel used; that of a call that fails is in its [Error].
	Fuel uint64
	// RestoredBytes of the guest's memory were written to put it back; -1
	// if that was left to the system, or the guest was given up.
	RestoredBytes int
}

// NewMeta encodes a request for guests. It sets the seed if it is empty.
// The error is that the time is not RFC 3339.
func NewMeta(m abi.Meta) (*document.Document, error) {
	if _, err := time.Parse(time.RFC3339Nano, m.Time); err != nil {
		return nil, fmt.Errorf("host: request time: %w", err)
	}
	if m.Seed == "" {
		sum := sha256.Sum256([]byte("weir seed\x00" + m.UID))
		m.Seed = hex.EncodeToString(sum[:16])
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("host: encode request: %w", err)
	}
	return document.Parse(raw)
}

// FormatTime spells a time as abi.Meta wants it.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
