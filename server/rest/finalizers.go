package rest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
)

// standardFinalizer reports whether name is one that needs no domain.
func standardFinalizer(name string) bool {
	return name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents || name == string(corev1.FinalizerKubernetes)
}

// finalizerErrors refuses finalizers without a domain that a built-in object gets. Kinds whose group is a domain of
// Kubernetes' machinery, such as CustomResourceDefinition, are free of it, as upstream.
func (g *Generic) finalizerErrors(obj, old *document.Document) field.ErrorList {
	switch {
	case g.cfg.Custom, !MetaOf(obj).HasFinalizers():
		return nil
	case g.cfg.Resource.Group == "apiextensions.k8s.io", g.cfg.Resource.Group == "admissionregistration.k8s.io":
		return nil
	}
	var errs field.ErrorList
	had := MetaOf(old).Finalizers()
	for i, f := range MetaOf(obj).Finalizers() {
		if !strings.Contains(f, "/") && !standardFinalizer(f) && !slices.Contains(had, f) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// finalizerWarnings are upstream's for finalizers that obj has and old has not.
func finalizerWarnings(obj, old *document.Document) []string {
	had := MetaOf(old).Finalizers()
	now := MetaOf(obj).Finalizers()
	slices.Sort(now)
	var out []string
	for _, f := range slices.Compact(now) {
		if slices.Contains(had, f) {
			continue
		}
		for _, msg := range validation.IsQualifiedName(f) {
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: %s", f, msg))
		}
		switch {
		case strings.Contains(f, "/"), standardFinalizer(f):
		case strings.Contains(f, "."):
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", f))
		default:
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", f))
		}
	}
	return out
}
