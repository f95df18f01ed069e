package registry

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// NamespaceLayer is what is particular to a Namespace: it is born Active with the
// finalizer of the namespace controller, its label kubernetes.io/metadata.name is its
// name, and its phase says whether it is being deleted.
type NamespaceLayer struct{ rest.NoHooks }

var _ rest.Layer = NamespaceLayer{}

// Name implements rest.Layer.
func (NamespaceLayer) Name() string { return "namespace" }

// Implements implements rest.Layer.
func (NamespaceLayer) Implements() rest.HookSet {
	return rest.HookSet(rest.HookPrepareForCreate | rest.HookValidate | rest.HookValidateUpdate | rest.HookCanonicalize)
}

// PrepareForCreate implements rest.Hooks.
func (NamespaceLayer) PrepareForCreate(_ context.Context, obj *document.Document) (*document.Document, error) {
	e := obj.Edit().Set(map[string]any{"phase": string(corev1.NamespaceActive)}, "status")
	list := []any{}
	held := false
	for _, f := range obj.Get("spec", "finalizers").Elements() {
		held = held || f.String() == string(corev1.FinalizerKubernetes)
		list = append(list, f.Interface())
	}
	if !held {
		e.Set(append(list, string(corev1.FinalizerKubernetes)), "spec", "finalizers")
	}
	return e.Document()
}

// Validate implements rest.Hooks.
func (NamespaceLayer) Validate(_ context.Context, obj *document.Document) (field.ErrorList, error) {
	return namespaceFinalizers(obj), nil
}

// ValidateUpdate implements rest.Hooks.
func (NamespaceLayer) ValidateUpdate(_ context.Context, obj, _ *document.Document) (field.ErrorList, error) {
	errs := namespaceFinalizers(obj)
	phase := obj.Get("status", "phase").String()
	path := field.NewPath("status", "phase")
	switch deleting := rest.MetaOf(obj).Deleting(); {
	case deleting && phase != string(corev1.NamespaceTerminating):
		errs = append(errs, field.Invalid(path, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
	case !deleting && phase != string(corev1.NamespaceActive):
		errs = append(errs, field.Invalid(path, phase, "may only be 'Active' if `deletionTimestamp` is empty"))
	}
	return errs, nil
}

// Canonicalize implements rest.Hooks.
func (NamespaceLayer) Canonicalize(_ context.Context, obj *document.Document) (*document.Document, error) {
	m := rest.MetaOf(obj)
	if m.Label(corev1.LabelMetadataName) == m.Name() {
		return obj, nil
	}
	return obj.Edit().Set(m.Name(), "metadata", "labels", corev1.LabelMetadataName).Document()
}

func namespaceFinalizers(obj *document.Document) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "finalizers")
	for _, v := range obj.Get("spec", "finalizers").Elements() {
		f := v.String()
		for _, msg := range validation.IsQualifiedName(f) {
			errs = append(errs, field.Invalid(path, f, msg))
		}
		switch {
		case strings.Contains(f, "/"), f == string(corev1.FinalizerKubernetes), f == metav1.FinalizerOrphanDependents, f == metav1.FinalizerDeleteDependents:
		default:
			errs = append(errs, field.Invalid(path, f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
