package abi

// Limits that are part of the contract: a guest may count on them and cannot
// exceed them. Fuel, memory and time are the host's to set.
const (
	// MaxObjectBytes bounds SlotObjectOut: etcd's request limit doubled,
	// as the API server bounds a request body.
	MaxObjectBytes = 3 << 20
	// MaxPatchBytes bounds SlotPatch.
	MaxPatchBytes = 3 << 20
	// MaxResultBytes bounds SlotResult.
	MaxResultBytes = 256 << 10
	// MaxManifestBytes bounds SlotManifest.
	MaxManifestBytes = 64 << 10
	// MaxPathBytes bounds the path of a query.
	MaxPathBytes = 4 << 10
	// MaxLogLineBytes is where a log line is cut.
	MaxLogLineBytes = 1 << 10
	// MaxLogBytes bounds all log lines of one call.
	MaxLogBytes = 8 << 10
	// MaxLogLines bounds their number.
	MaxLogLines = 64
	// MaxLookups bounds the look-ups of one call.
	MaxLookups = 16
	// MaxLookupRequestBytes bounds a LookupRequest.
	MaxLookupRequestBytes = 4 << 10
	// MaxLookupBytes bounds a LookupResult.
	MaxLookupBytes = 1 << 20
	// MaxLookupRows bounds the objects that the look-ups of one call look at to
	// find what a selector selects.
	MaxLookupRows = 100_000
	// MaxLookupItems bounds the objects of a LookupResult.
	MaxLookupItems = 500
	// MaxAuthorize bounds the calls of authorize in one call.
	MaxAuthorize = 16
	// MaxAuthorizeRequestBytes bounds an AuthorizeRequest.
	MaxAuthorizeRequestBytes = 4 << 10
)
