// Package envtest has only tests: what envtest of controller-runtime asks of a kube-apiserver and an etcd, of the links that
// `weir envtest` makes. testdata/program is a module of its own, the test of a controller as a user writes it.
package envtest
