// Package rest holds what endpoints and the registry agree on: the verbs of a
// resource (storage.go), the strategy around its storage (strategy.go, layer.go),
// the resources in force for a request (resource.go, catalog.go), and what is
// done before every create, update and delete (create.go, update.go, delete.go).
//
// An object is a *document.Document throughout. It is immutable: a hook that
// changes it returns another.
package rest
