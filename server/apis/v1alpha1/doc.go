// Package v1alpha1 holds the configuration kinds of weir.dev/v1alpha1: what an
// operator applies to change what the server does while it runs. All are
// cluster-scoped.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.weir.v1alpha1
package v1alpha1
