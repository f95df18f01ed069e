// Package openapi builds the OpenAPI documents that describe the resources of a
// catalog: version 3, one document for a group version, and version 2, one for
// all. kubectl explains and validates from them. It has no HTTP in it.
//
// A kind's schema comes from its rest.OpenAPISource; this package adds the paths,
// with the extensions by which clients find a kind: x-kubernetes-action and
// x-kubernetes-group-version-kind.
package openapi
