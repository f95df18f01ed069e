// Package loader turns configuration objects into what serves requests: it follows
// CustomResourceDefinitions, Modules and Strategies, fetches, compiles and tests what
// they say off the request path, and publishes one extension.Snapshot after another.
//
// What fails never replaces what works: the last known good stays in force and the object's
// status says why. Definitions and strategies in CEL are read-your-writes by a Barrier: a write
// returns when the snapshot that has it is published. Modules are loaded in the background and
// have a Ready condition.
package loader
