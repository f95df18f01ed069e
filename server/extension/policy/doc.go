// Package policy is the one model behind all admission policies, of whatever kind of object they come:
// ValidatingAdmissionPolicy and MutatingAdmissionPolicy, and their bindings.
//
// An [Index] has the policies in force and belongs to a snapshot. [Admission] is the mutator and the validator of
// the server: it asks the index of the request's snapshot which policies may concern the request, matches those, gets the
// params that their bindings name, and runs the [Judge] of each, in the order of their names.
//
// A policy that cannot match a request costs it nothing: the index remembers for each resource, subresource and
// operation which policies have a rule for it.
package policy
