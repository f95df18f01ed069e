// Package document holds the one value that the server, CEL, Rego and guests
// all read: an immutable JSON document, kept as its canonical bytes and a tape,
// a flat index of its tokens that is built once.
//
// Canonical bytes have object members sorted by name (bytewise, decoded), no
// duplicate member, no insignificant white space, the shortest string escapes, valid
// UTF-8, and every number spelled as it was received. Two documents are equal when
// their canonical bytes are; 1 and 1.0 are not.
//
// A Document comes of
//   - Ingest, for what a client sent, and Parse, for what the project or an author wrote;
//   - FromCanonical, for the Bytes of another, such as those that were stored;
//   - FromValue, for a Go value;
//   - Edit and ApplyMergePatch, for a change to another Document.
//
// It is read through Root or Get, which return a Value, and Query, which follows a
// Path with wildcards. Map and Interface make the Go values that sigs.k8s.io/json
// makes, for libraries that take nothing else.
//
// Nothing changes a Document; one may be shared between goroutines. Bytes and strings
// that are read of it share its memory. A Document is nested at most MaxDepth deep,
// and none of its methods runs deeper, whatever a client sent.
package document
