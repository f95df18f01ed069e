// Package etcd3 keeps objects in etcd, one row an object.
//
// Store implements storage.Interface: each write is one transaction that compares the
// row's mod revision, and a watch is etcd's watch with previous values. Embedded runs
// an etcd within this process and calls it without a socket; Dial reaches one
// elsewhere. Compactor drops the history that is older than some minutes, one server
// at a time.
//
// Rows have upstream's keys and values, so that an existing etcd of custom resources
// can be read.
package etcd3
