package e2e_test

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// createFile creates the object of a YAML file; namespace "" is for a cluster-scoped one.
func createFile(t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource, namespace, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &obj.Object); err != nil {
		t.Fatal(err)
	}
	var resource dynamic.ResourceInterface = client.Resource(gvr)
	if namespace != "" {
		resource = client.Resource(gvr).Namespace(namespace)
	}
	made, err := resource.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s: %v", file, err)
	}
	return made
}
