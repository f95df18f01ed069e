// Package endpoints serves the resources of a rest.Catalog over HTTP, as
// kube-apiserver does: one file a verb, negotiation and decoding before it, and
// the response after it.
//
// New gives an http.Handler for /api, /apis and /openapi: a go-restful container
// whose routes are parametrised by group, version and resource. Nothing is
// installed per resource. Each request looks its resource up in the catalog that
// a filter has pinned to its context (rest.WithCatalog), so that a resource
// appears and vanishes with the catalog.
//
// A write passes these steps:
//
//	negotiate   what the client accepts (negotiate.go)
//	decode      the body, strictly as fieldValidation asks (decode.go)
//	default     what the client left out (convert.go)
//	own         managedFields (fields.go)
//	admit       mutators, default again after each (admit.go)
//	store       the verb of rest, in the stored version; validators run inside it
//	write       the object, a Table or its metadata (write.go, transform.go)
//
// Filters before this package provide request.Info, the user, the catalog, a
// recorder of warnings and a context that ends when the server shuts down.
package endpoints
