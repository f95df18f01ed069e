// Package document holds the one value that the server, CEL, Rego and guests
// all read: an immutable JSON document, kept as its canonical bytes and a tape,
// a flat index of its tokens that is built once.
//
// Canonical bytes have object members sorted by name, no duplicate member, no
// insignificant white space, the shortest string escapes, valid UTF-8, and every
// number spelled as it was received. Two documents are equal when their canonical
// bytes are.
//
// Ingest makes a Document from what a client sent; FromCanonical from what was
// stored; Edit from another Document. Nothing changes a Document.
package document
