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
)
