// Package torture holds the tests of what a server promises while all around it fails: processes are killed and
// stopped, connections are reset and halved, history is compacted, the disk or an etcd's quota fills, watchers do not read.
//
// Clients write, read, list and watch over HTTP and record what they were answered. They list and get what is current,
// what is not older than a revision, what is of any age, and what was at a revision. In the end the records are
// compared with what etcd's own watch says has happened, and checked for linearizability key by key. A scenario in
// which a kind of reads never succeeded, hardly anything was written or nothing failed shows nothing, and fails.
//
// Where objects go with the leases of etcd, several go at one revision. A revision is all that a watch resumes from: a
// client that breaks off between the events of one may miss those behind. Nothing else may be missed.
//
// Some of the scenarios run for some seconds each with the other tests, all as long as wanted with `make torture`.
package torture
