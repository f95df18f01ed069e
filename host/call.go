package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
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
	// Late gives what is in the slots of Meta, Options and Namespace that are nil here, when the guest first reads one: at
	// most once each. It may give nil. What it waits for has the time that the call has left. Its error stops the guest, is
	// the cause of the Error and of [ClassNotReady]. nil: there is nothing else.
	Late func(ctx context.Context, slot abi.Slot) (*document.Document, error)
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
	return document.FromCanonical(appendMeta(make([]byte, 0, 512), &m)), nil
}

// appendMeta appends canonical JSON, whose members are in the order of their names: each request that a guest is asked
// about has one.
func appendMeta(b []byte, m *abi.Meta) []byte {
	b = append(b, '{')
	if m.DryRun {
		b = append(b, `"dryRun":true,`...)
	}
	b = appendMember(b, `"group":`, m.Group)
	b = appendMember(b, `,"kind":`, m.Kind)
	b = appendPresent(b, `,"name":`, m.Name)
	b = appendPresent(b, `,"namespace":`, m.Namespace)
	b = appendPresent(b, `,"operation":`, string(m.Operation))
	b = appendMember(b, `,"resource":`, m.Resource)
	b = appendPresent(b, `,"seed":`, m.Seed)
	b = appendPresent(b, `,"subresource":`, m.Subresource)
	b = appendMember(b, `,"time":`, m.Time)
	b = appendMember(b, `,"uid":`, m.UID)
	b = append(b, `,"user":{`...)
	start := len(b)
	if len(m.User.Extra) > 0 {
		b = append(b, `"extra":{`...)
		for i, key := range slices.Sorted(maps.Keys(m.User.Extra)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(document.AppendString(b, key), ':')
			b = appendTexts(b, m.User.Extra[key])
		}
		b = append(b, `},`...)
	}
	if len(m.User.Groups) > 0 {
		b = append(appendTexts(append(b, `"groups":`...), m.User.Groups), ',')
	}
	if m.User.UID != "" {
		b = append(appendMember(b, `"uid":`, m.User.UID), ',')
	}
	if m.User.Username != "" {
		b = append(appendMember(b, `"username":`, m.User.Username), ',')
	}
	if len(b) > start {
		b = b[:len(b)-1]
	}
	return append(appendMember(b, `},"version":`, m.Version), '}')
}

// appendMember appends a member; name is all that is before its value.
func appendMember(b []byte, name, value string) []byte {
	return document.AppendString(append(b, name...), value)
}

// appendPresent appends a member that is left out where it is empty.
func appendPresent(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendMember(b, name, value)
}

func appendTexts(b []byte, texts []string) []byte {
	if texts == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = document.AppendString(b, text)
	}
	return append(b, ']')
}

// FormatTime spells a time as abi.Meta wants it.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
