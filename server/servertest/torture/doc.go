// Package torture holds the tests of what a server promises while all around it fails: processes are killed and
// stopped, connections are reset and halved, history is compacted, the disk fills, watchers do not read.
//
// Clients write, read, list and watch over HTTP and record what they were answered. In the end the records are
// compared with what etcd's own watch says has happened, and checked for linearizability key by key. The scenarios
// run for some seconds each with the other tests, and as long as wanted with `make torture`.
package torture
