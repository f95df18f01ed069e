package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// SystemNamespaces are the namespaces that every cluster has.
func SystemNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
}

// Bootstrap creates those of the namespaces that are not there.
func Bootstrap(ctx context.Context, namespaces rest.Creater, names []string) error {
	for _, name := range names {
		obj, err := document.FromValue(map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
		})
		if err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
		if _, err := namespaces.Create(ctx, obj, nil, &metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
	}
	return nil
}
