// Package resources holds the API resources of the server as data.
//
// A [Definition] says all that the generic machinery must know to serve a
// resource: its names, versions, schemas, subresources, printer columns,
// selectable fields and defaults. Built-in resources are files beside this
// package; a CustomResourceDefinition is turned into a Definition with an
// inline schema. There is no Go type or function per kind.
//
// A file system of resources has three directories:
//
//	packs/<any>.yaml       a [Pack]: the definitions of one API group; when there
//	                       is a packs.json, all packs compiled into one array of
//	                       JSON, it is read instead
//	schemas/<model>.json   OpenAPI v3 schemas of one API package, generated
//	overlays/<model>.yaml  an [Overlay]: what upstream's Go code adds to those
//	                       schemas (unconditional defaults, required fields)
//
// where <model> is a model name without its last element: the schema
// io.k8s.api.apps.v1.Deployment is in schemas/io.k8s.api.apps.v1.json. To add
// a built-in kind, add or extend a pack and, when its API package is not yet
// there, list that package in gen/source.go; then run go generate.
//
// Packs are read by [Load]; schemas and overlays when they are first asked
// for, one definition at a time, so that starting a server stays cheap.
package resources

//go:generate go run ./gen
