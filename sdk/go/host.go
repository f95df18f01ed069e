package weir

import "weir.dev/weir/abi"

// Host is what a guest asks of its host, as package abi describes it. In
// WebAssembly these are the module's imports; package weirtest has one for
// tests.
type Host interface {
	// Read is abi.ImportRead.
	Read(slot abi.Slot, off int, buf []byte) int
	// Query is abi.ImportQuery.
	Query(slot abi.Slot, path string, buf []byte) int
	// Write is abi.ImportWrite.
	Write(slot abi.Slot, data []byte) int
	// Log is abi.ImportLog.
	Log(level abi.LogLevel, line string) int
}

// Lookuper is a [Host] that looks objects up. It is apart, as is [Authorizer], so
// that a module imports only what it uses.
type Lookuper interface {
	// Lookup is abi.ImportLookup.
	Lookup(request, buf []byte) int
}

// Authorizer is a [Host] that tells what users may do.
type Authorizer interface {
	// Authorize is abi.ImportAuthorize.
	Authorize(request []byte) int
}
