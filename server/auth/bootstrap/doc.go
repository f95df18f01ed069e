// Package bootstrap holds the roles and bindings that a cluster is born with, those of Kubernetes, as data
// (*.yaml, compiled to objects.json), and brings a server's stored ones up to them.
package bootstrap
