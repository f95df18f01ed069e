// Package upstream runs the suite that Kubernetes' own storages pass,
// k8s.io/apiserver/pkg/storage/testing, on the storages of this server, and its
// benchmarks on both. It has tests only.
package upstream
