// Package cel is the engine for the Common Expression Language with Kubernetes'
// libraries: what a ValidatingAdmissionPolicy may say, a strategy may say.
//
// # Values
//
// Expressions read a document through its tape: nothing is decoded to maps. An integer
// that fits 64 bits is an int, every other number a double, null is null. Objects are
// maps with string keys. All documents are of type dyn.
//
// # Costs
//
// Evaluation is bounded by upstream's cost model. Metering takes longer than most rules
// do, so that each expression carries bounds that were computed when it was compiled,
// for documents of a few sizes; where the bound for the documents at hand shows that
// neither limit can be met, the expression runs unmetered.
package cel
