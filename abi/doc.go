// Package abi is the contract between a Weir host and its guests, version 1.
//
// A guest is a core WebAssembly (wasm32) module with one exported memory. It
// pulls what it wants to know from the host and writes back a verdict; the
// host never allocates in the guest, so no allocator is exported.
//
// The guest exports
//
//	memory                          its only linear memory
//	_initialize()                   optional, called once before anything else
//	weir_abi_v1()                   a marker, never called
//	weir_describe() -> i32          writes [Manifest] to [SlotManifest]
//	weir_invoke(op i32) -> i32      runs one hook, see [Op] and [Status]
//
// and may import from module [ImportModule]
//
//	read(slot i32, off i32, buf i32, cap i32) -> i32
//	query(slot i32, path i32, path_len i32, buf i32, cap i32) -> i32
//	write(slot i32, ptr i32, len i32) -> i32
//	log(level i32, ptr i32, len i32) -> i32
//	lookup(req i32, req_len i32, buf i32, cap i32) -> i32   by a capability
//	authorize(req i32, req_len i32) -> i32                  by a capability
//
// # The buffer rule
//
// An import that fills a buffer returns the length it needs and writes only
// if that fits in cap; a negative return is minus an [Errno]. So a guest
// calls once with the buffer it has, and again with a larger one if the
// return exceeds cap. For example, with a slot of 2,020 bytes:
//
//	read(object, 0, buf, 512)     = 2020   nothing was written
//	read(object, 0, buf, 4096)    = 2020   buf[0:2020] was written
//	read(object, 2000, buf, 4096) = 20     buf[0:20] was written
//	read(oldObject, 0, buf, 4096) = -2     there is no old object: ENOENT
//
// # Encodings
//
// Every slot is JSON (RFC 8259, UTF-8). The types [Meta], [Manifest],
// [Result], [LookupRequest], [LookupResult] and [AuthorizeRequest] are those
// documents; their members are only ever added to.
//
// # Versions
//
// What a module of a version relies on does not change while there is that
// version: hooks, imports and members of documents are only added to it, and a
// module finds out about them by ENOSYS, or their absence. Whatever else changes
// makes the next version, N, with a marker (weir_abi_vN) and a module of imports
// (weir.vN) of its own. A host that has N takes modules of N and of N−1, so that
// a server is upgraded first and its modules are built anew before the next
// upgrade; it refuses others, and says which versions it takes. Until there is a
// version 2 this means that a host takes version 1.
//
// This package has no dependencies, so that guests can import it without
// growing.
package abi

// Versions of the contract.
const (
	// Version is the one that this package describes.
	Version = 1
	// OldestVersion is the oldest one whose modules a host takes that has
	// Version: the one before, if there is one.
	OldestVersion = max(1, Version-1)
)
