// Package schema makes of a structural schema what the server needs of it: a
// rest.Schema that knows the fields of a kind (prune.go, coerce.go), and a rest.Layer
// that fills in its defaults (default.go) and validates objects against it, rules
// in CEL included (validate.go). Built-in kinds and custom resources go through it alike.
//
// The meaning of a schema is that of k8s.io/apiextensions-apiserver, whose code
// decides wherever there is something to decide. What stands before it here is a
// walk over the document that finds the common case, in which an object needs no
// change, without decoding it.
package schema
