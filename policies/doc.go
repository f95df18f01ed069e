// Package policies is the vocabulary of everything that judges or changes an object
// by expressions: an [Engine] compiles a [Source] to a [Program]; a [Run] of the
// program over some documents evaluates its expressions, each to a [Verdict], and
// keeps account of the [Cost].
//
// An engine that does not accept a source says why with [Issues], each with the place
// in the text. The engines are in the packages below; this one knows none of them.
package policies
