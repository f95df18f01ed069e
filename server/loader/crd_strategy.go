package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// crdLayer is the strategy of CustomResourceDefinitions: upstream's defaults and validation.
// It is native, so that no rule can lock out the repair of a definition.
type crdLayer struct {
	rest.NoHooks
	subresource string
}

var _ rest.Layer = crdLayer{}

// CRDLayer returns the layer for definitions, or for a subresource of them.
func CRDLayer(subresource string) rest.Layer { return crdLayer{subresource: subresource} }

// Name implements rest.Layer.
func (crdLayer) Name() string { return "customresourcedefinition" }

// Implements implements rest.Layer.
func (l crdLayer) Implements() rest.HookSet {
	if l.subresource != "" {
		return rest.HookSet(rest.HookValidateUpdate)
	}
	return rest.HookSet(rest.HookDefault | rest.HookPrepareForCreate | rest.HookPrepareForUpdate | rest.HookValidate | rest.HookValidateUpdate)
}

// Default implements rest.Hooks: singular, listKind and the conversion strategy.
func (crdLayer) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	crd, err := decodeCRD(obj)
	if err != nil {
		return nil, err
	}
	names := crd.Spec.Names
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	edit := obj.Edit()
	if crd.Spec.Names.Singular != names.Singular {
		edit.Set(crd.Spec.Names.Singular, "spec", "names", "singular")
	}
	if crd.Spec.Names.ListKind != names.ListKind {
		edit.Set(crd.Spec.Names.ListKind, "spec", "names", "listKind")
	}
	if !obj.Get("spec", "conversion").Exists() && obj.Get("spec").Exists() && crd.Spec.Conversion != nil {
		edit.Set(map[string]any{"strategy": string(crd.Spec.Conversion.Strategy)}, "spec", "conversion")
	}
	return edit.Document()
}

// PrepareForCreate implements rest.Hooks. The finalizer is there from the start, so that however a definition
// is deleted its objects go first.
func (crdLayer) PrepareForCreate(_ context.Context, obj *document.Document) (*document.Document, error) {
	crd, err := decodeCRD(obj)
	if err != nil {
		return nil, err
	}
	edit := obj.Edit()
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		finalizers := make([]any, 0, len(crd.Finalizers)+1)
		for _, f := range append(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
			finalizers = append(finalizers, f)
		}
		edit.Set(finalizers, "metadata", "finalizers")
	}
	if stored := storedVersions(crd); stored != nil {
		edit.Set(map[string]any{"storedVersions": stored}, "status")
	}
	return edit.Document()
}

// PrepareForUpdate implements rest.Hooks: a new storage version is among the stored ones from the first.
func (crdLayer) PrepareForUpdate(_ context.Context, obj, _ *document.Document) (*document.Document, error) {
	crd, err := decodeCRD(obj)
	if err != nil {
		return nil, err
	}
	edit := obj.Edit()
	if stored := storedVersions(crd); stored != nil && len(stored) != len(crd.Status.StoredVersions) {
		edit.Set(stored, "status", "storedVersions")
	}
	// The clean-up finalizer stays until the clean-up is done, which the status tells.
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) && crd.DeletionTimestamp == nil {
		finalizers := []any{}
		for _, f := range append(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
			finalizers = append(finalizers, f)
		}
		edit.Set(finalizers, "metadata", "finalizers")
	}
	return edit.Document()
}

// storedVersions returns status.storedVersions with the storage version among them.
func storedVersions(crd *apiextensionsv1.CustomResourceDefinition) []any {
	var stored []any
	for _, v := range crd.Status.StoredVersions {
		stored = append(stored, v)
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			stored = append(stored, v.Name)
		}
	}
	return stored
}

// Validate implements rest.Hooks.
func (crdLayer) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	crd, err := decodeInternalCRD(obj)
	if err != nil {
		return nil, err
	}
	return append(validation.ValidateCustomResourceDefinition(ctx, crd), unsupported(crd)...), nil
}

// ValidateUpdate implements rest.Hooks.
func (l crdLayer) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	crd, err := decodeInternalCRD(obj)
	if err != nil {
		return nil, err
	}
	before, err := decodeInternalCRD(old)
	if err != nil {
		return nil, err
	}
	if l.subresource == rest.SubresourceStatus {
		return validation.ValidateUpdateCustomResourceDefinitionStatus(ctx, crd, before), nil
	}
	establishServed(before)
	errs := validation.ValidateCustomResourceDefinitionUpdate(ctx, crd, before)
	if obj.Get("spec").Equal(old.Get("spec")) {
		return errs, nil // what another server stored can be deleted, and labelled
	}
	return append(errs, unsupported(crd)...), nil
}

// establishServed gives a definition whose names nobody has refused the condition Established: it is served
// since it was written, and its condition follows a little later. What is immutable is so from the start.
func establishServed(crd *apiextensions.CustomResourceDefinition) {
	if !apiextensions.IsCRDConditionFalse(crd, apiextensions.Established) {
		apiextensions.SetCRDCondition(crd, apiextensions.CustomResourceDefinitionCondition{
			Type: apiextensions.Established, Status: apiextensions.ConditionTrue})
	}
}

// unsupported refuses what is not served, so that nobody believes it to be in force.
func unsupported(crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy != apiextensions.NoneConverter {
		return field.ErrorList{field.NotSupported(field.NewPath("spec", "conversion", "strategy"),
			crd.Spec.Conversion.Strategy, []apiextensions.ConversionStrategyType{apiextensions.NoneConverter})}
	}
	return nil
}

func decodeCRD(obj *document.Document) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(obj.Bytes(), crd); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a CustomResourceDefinition: %v", err))
	}
	return crd, nil
}

func decodeInternalCRD(obj *document.Document) (*apiextensions.CustomResourceDefinition, error) {
	crd, err := decodeCRD(obj)
	if err != nil {
		return nil, err
	}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a CustomResourceDefinition: %v", err))
	}
	return internal, nil
}
