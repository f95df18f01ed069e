package endpoints

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decodeOptions reads the query into one of metav1's options.
func decodeOptions(req *http.Request, into runtime.Object) error {
	if _, list := into.(*internalversion.ListOptions); !list && req.URL.RawQuery == "" {
		return nil // of a list, nothing is decoded into selectors of everything
	}
	if err := internalscheme.ParameterCodec.DecodeParameters(req.URL.Query(), metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// newInvalidOptions is the 422 for options of that kind, nil without errs.
func newInvalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func getOptions(req *http.Request) (*metav1.GetOptions, error) {
	opts := &metav1.GetOptions{}
	return opts, decodeOptions(req, opts)
}

func createOptions(req *http.Request) (*metav1.CreateOptions, error) {
	opts := &metav1.CreateOptions{}
	if err := decodeOptions(req, opts); err != nil {
		return nil, err
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return opts, newInvalidOptions("CreateOptions", validation.ValidateCreateOptions(opts))
}

func updateOptions(req *http.Request) (*metav1.UpdateOptions, error) {
	opts := &metav1.UpdateOptions{}
	if err := decodeOptions(req, opts); err != nil {
		return nil, err
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	return opts, newInvalidOptions("UpdateOptions", validation.ValidateUpdateOptions(opts))
}

func patchOptions(req *http.Request, patchType types.PatchType) (*metav1.PatchOptions, error) {
	opts := &metav1.PatchOptions{}
	if err := decodeOptions(req, opts); err != nil {
		return nil, err
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PatchOptions"))
	return opts, newInvalidOptions("PatchOptions", validation.ValidatePatchOptions(opts, patchType))
}

// updateToCreate has the options of an update that creates.
func updateToCreate(opts *metav1.UpdateOptions) *metav1.CreateOptions {
	out := &metav1.CreateOptions{DryRun: opts.DryRun, FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation}
	out.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CreateOptions"))
	return out
}

// patchToUpdate has the options of a patch as those of an update.
func patchToUpdate(opts *metav1.PatchOptions) *metav1.UpdateOptions {
	out := &metav1.UpdateOptions{DryRun: opts.DryRun, FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation}
	out.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	return out
}

// listOptions reads and validates the options of a list, watch or deletecollection.
// A watch without a resourceVersion is one with initial events, as upstream
// defaults it (KEP-3157).
func (sc *scope) listOptions(req *http.Request) (*internalversion.ListOptions, error) {
	opts := &internalversion.ListOptions{}
	if err := decodeOptions(req, opts); err != nil {
		return nil, err
	}
	internalversion.SetListOptionsDefaults(opts, true)
	if err := newInvalidOptions("ListOptions", internalvalidation.ValidateListOptions(opts, true)); err != nil {
		return nil, err
	}
	if opts.FieldSelector != nil {
		selector, err := opts.FieldSelector.Transform(sc.fieldLabel)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		opts.FieldSelector = selector
	}
	return opts, nil
}

// fieldLabel refuses a field that cannot be selected by.
func (sc *scope) fieldLabel(label, value string) (string, string, error) {
	switch label {
	case "metadata.name", "metadata.namespace":
		return label, value, nil
	}
	for _, selectable := range sc.version.SelectableFields {
		if label == strings.TrimPrefix(selectable, ".") {
			return label, value, nil
		}
	}
	switch {
	case sc.resource.Custom:
		return "", "", fmt.Errorf("field label not supported: %s", label)
	case len(sc.version.SelectableFields) == 0:
		return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
	}
	return "", "", fmt.Errorf("field label %q not supported for kind %q", label, sc.kind.Kind)
}
