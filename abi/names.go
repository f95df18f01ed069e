package abi

// Exports of a guest.
const (
	ExportMemory     = "memory"        // its linear memory
	ExportInitialize = "_initialize"   // func(), optional
	ExportMarker     = "weir_abi_v1"   // func(), never called
	ExportDescribe   = "weir_describe" // func() i32, a Status
	ExportInvoke     = "weir_invoke"   // func(op i32) i32, a Status
	// ExportMarkerPrefix begins the marker of every version.
	ExportMarkerPrefix = "weir_abi_v"
)

// Imports of a guest. All parameters and results are i32.
const (
	ImportModule = "weir.v1"
	// ImportModulePrefix begins the module of every version.
	ImportModulePrefix = "weir.v"

	// ImportRead is read(slot, off, buf, cap): the slot's bytes from off
	// on, under the buffer rule. ENOENT: the slot is absent in this call.
	// EINVAL: no such input slot, or off is beyond its end.
	ImportRead = "read"
	// ImportQuery is query(slot, path, path_len, buf, cap): the canonical
	// JSON of the value at a path of an input slot, under the buffer rule.
	// The path is members and indexes, `spec.containers[0].image` or
	// `metadata.labels['app.kubernetes.io/name']`; with a wildcard,
	// `spec.containers[*].image`, the answer is the JSON array of all
	// matches, empty if there are none. An empty path is the whole slot.
	// ENOENT: the slot or the path is absent. EINVAL: no such slot, or the
	// path does not parse. E2BIG: the path exceeds MaxPathBytes.
	ImportQuery = "query"
	// ImportWrite is write(slot, ptr, len): replaces an output slot and
	// returns len. E2BIG: over the slot's limit. EINVAL: no such output
	// slot, or not one of this op. Either makes the whole call fail as bad
	// output, whatever the guest does next.
	ImportWrite = "write"
	// ImportLog is log(level, ptr, len): one line for the server's log;
	// returns the number of bytes kept. Lines over MaxLogLineBytes are
	// cut, lines over MaxLogLines or MaxLogBytes a call are dropped.
	ImportLog = "log"

	// ImportLookup is lookup(req, req_len, buf, cap): the [LookupResult] of
	// a [LookupRequest], as JSON under the buffer rule. The answer of the
	// last request of a call is kept: asked again, in the same bytes, it is
	// the same and not counted again. It is of the capability
	// lookup:<resource>. Objects are what this server knew last, which may be
	// a moment behind what is stored. EPERM: the resource is not among
	// those that the manifest asks for and that were granted, or the guest is
	// being loaded (described, configured, warmed up). EINVAL: the request is
	// not a LookupRequest, a path, a selector or the limit is not valid, or
	// there is no such resource. E2BIG: the request is over
	// MaxLookupRequestBytes, the answer over MaxLookupBytes, or it is one
	// more than MaxLookups. Where the server cannot answer now the call is
	// stopped, and fails as not ready.
	ImportLookup = "lookup"
	// ImportAuthorize is authorize(req, req_len): 1 if the server's
	// authorizer allows what an [AuthorizeRequest] describes, 0 if not. It
	// is of the capability authorize. EPERM: that was not granted, or the
	// guest is being loaded. EINVAL: the request is not an
	// AuthorizeRequest. E2BIG: it is over MaxAuthorizeRequestBytes, or one
	// more than MaxAuthorize. Where the authorizer cannot answer the call is
	// stopped, and fails as not ready.
	ImportAuthorize = "authorize"
)

// ReservedPrefix begins the names of exports that the host adds to a guest
// when it loads it; a guest may have none of its own.
const ReservedPrefix = "weir$"

// LogLevel is the first argument of the log import.
type LogLevel int32

// Log levels. Any other number counts as LogInfo.
const (
	LogDebug LogLevel = 0
	LogInfo  LogLevel = 1
	LogWarn  LogLevel = 2
	LogError LogLevel = 3
)

// Errno is the negated negative return of an import. The numbers are those
// of Linux.
type Errno int32

// Errors of imports.
const (
	EPERM  Errno = 1  // a capability was not granted
	ENOENT Errno = 2  // the slot or the path is absent
	E2BIG  Errno = 7  // over a limit
	EFAULT Errno = 14 // a pointer is outside the guest's memory
	EINVAL Errno = 22 // an argument is not valid
	ENOSYS Errno = 38 // the host has no such import
)

// Error implements error.
func (e Errno) Error() string {
	switch e {
	case EPERM:
		return "capability not granted"
	case ENOENT:
		return "absent"
	case E2BIG:
		return "over the limit"
	case EFAULT:
		return "pointer outside memory"
	case EINVAL:
		return "invalid argument"
	case ENOSYS:
		return "not implemented by the host"
	}
	return "unknown errno"
}
