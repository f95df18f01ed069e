package server

import (
	"encoding/json"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// definitionResource is that of CustomResourceDefinitions.
var definitionResource = schema.GroupResource{Group: apiextensions.GroupName, Resource: "customresourcedefinitions"}

// definitionVersions converts between the versions of CustomResourceDefinitions. Most servers never need it.
var definitionVersions = sync.OnceValues(func() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiextensionsv1beta1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
})

// upgradeDefinition makes of a definition that another server stored what this one would have. The storage version of
// kube-apiserver is still v1beta1, where the schema of an only version lies beside spec.versions; and it gives a definition the
// finalizer by which its objects go with it when a deletion begins, which is too late here.
func upgradeDefinition(obj *document.Document) (*document.Document, error) {
	if obj.Get("apiVersion").String() == apiextensionsv1beta1.SchemeGroupVersion.String() {
		served, err := convertDefinition(obj)
		if err != nil {
			return obj, nil // one that makes no sense must not hide the others
		}
		obj = served
	}
	m := rest.MetaOf(obj)
	if m.Deleting() || slices.Contains(m.Finalizers(), apiextensionsv1.CustomResourceCleanupFinalizer) {
		return obj, nil
	}
	finalizers := []any{}
	for _, f := range m.Finalizers() {
		finalizers = append(finalizers, f)
	}
	return obj.Edit().Set(append(finalizers, apiextensionsv1.CustomResourceCleanupFinalizer), "metadata", "finalizers").Document()
}

// convertDefinition makes v1 of v1beta1.
func convertDefinition(obj *document.Document) (*document.Document, error) {
	scheme, err := definitionVersions()
	if err != nil {
		return nil, err
	}
	var stored apiextensionsv1beta1.CustomResourceDefinition
	var internal apiextensions.CustomResourceDefinition
	var served apiextensionsv1.CustomResourceDefinition
	if err := kjson.UnmarshalCaseSensitivePreserveInts(obj.Bytes(), &stored); err != nil {
		return nil, err
	}
	scheme.Default(&stored)
	if err := scheme.Convert(&stored, &internal, nil); err != nil {
		return nil, err
	}
	if err := scheme.Convert(&internal, &served, nil); err != nil {
		return nil, err
	}
	served.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	text, err := json.Marshal(&served)
	if err != nil {
		return nil, err
	}
	return document.Parse(text)
}
