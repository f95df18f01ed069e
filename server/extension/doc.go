// Package extension makes what the server calls out of what an operator applied: a
// [CELLayer] of CEL rules and a [ModuleLayer] of a Wasm module are each a rest.Layer,
// [CompileStrategy] makes the layers of a Strategy object.
//
// A [Snapshot] is the immutable set of resources in force, with the modules that they
// need. A [Holder] publishes the next one by swapping a pointer; the modules of the old
// one are closed when the last request that uses it is done.
package extension
