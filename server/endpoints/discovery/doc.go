// Package discovery derives from a rest.Catalog what clients read to learn which
// resources are served, both ways: APIGroupList and APIResourceList, and the
// aggregated APIGroupDiscoveryList (KEP-3352). It has no HTTP in it.
package discovery
