// Package loader turns configuration objects into what serves requests: it follows
// CustomResourceDefinitions, Modules and Strategies, fetches, compiles and tests what
// they say off the request path, and publishes one extension.Snapshot after another.
//
// What fails never replaces what works: the last known good stays in force and the object's
// status says why. Definitions and strategies in CEL are read-your-writes by a Barrier: a write
// returns when the snapshot that has it is published. Modules are loaded in the background and
// have a Ready condition; a ConfigMap or a file that one is loaded from is followed.
//
// Nothing waits for itself: the lock of the Loader is held to decide, to compile CEL and to
// configure a module with new settings, never for a write to storage. One goroutine beside it
// writes statuses and Events, and takes the lock only to ask what to write.
package loader
