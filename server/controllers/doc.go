// Package controllers does what a cluster expects to happen by itself: the namespaces it needs are
// there, the content of a namespace goes with it, and objects go with their owners. Controllers work in this
// process, on the verbs of server/rest, past the HTTP front and admission. Each runs until the context of its
// Run is done, wakes up by watches, and leaves no goroutine behind.
package controllers
