package endpoints

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
)

// apply is a server-side apply (KEP-555): what a manager wants of an object.
type apply struct {
	scope           *scope
	applied         decoded
	manager         string
	force           bool
	fieldValidation string
}

// newApply reads the configuration applied, which is YAML and so may be JSON.
func (s *server) newApply(sc *scope, body []byte, opts *metav1.PatchOptions, manager string) (*apply, error) {
	d, err := s.parse(mediaTypeYAML, body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if d.doc.Root().Kind() != document.Object {
		return nil, apierrors.NewBadRequest("error decoding patch: the patch is no object")
	}
	apiVersion, kind := d.doc.Get("apiVersion").String(), d.doc.Get("kind").String()
	want := sc.kind.GroupVersion().String()
	switch {
	case apiVersion == "" || kind == "":
		return nil, apierrors.NewBadRequest("apiVersion and kind must be set in an apply patch")
	case apiVersion != want:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Incorrect version specified in apply patch. Specified patch version: %s, expected: %s", apiVersion, want))
	case kind != sc.kind.Kind:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("incorrect kind specified in apply patch. Specified patch kind: %s, expected: %s", kind, sc.kind.Kind))
	case d.doc.Get("metadata", "managedFields").Kind() == document.Array:
		return nil, apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	if name := d.doc.Get("metadata", "name").String(); name != "" && name != sc.name {
		return nil, sc.checkName(d.doc)
	}
	return &apply{scope: sc, applied: d, manager: manager, force: forced(opts), fieldValidation: opts.FieldValidation}, nil
}

// compute is the compute of an updateInfo.
func (a *apply) compute(ctx context.Context, live *document.Document) (*document.Document, error) {
	sc := a.scope
	if live == nil && sc.sub != nil {
		return nil, sc.newNotFound()
	}
	uid := a.applied.doc.Get("metadata", "uid").String()
	if live == nil && uid != "" {
		return nil, apierrors.NewConflict(sc.gvr.GroupResource(), sc.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	obj, err := sc.fields.Apply(ctx, live, a.applied.doc, a.manager, a.force)
	if err != nil {
		return nil, err
	}
	d := decoded{doc: obj}
	if d, err = sc.prune(d); err != nil {
		return nil, err
	}
	d.objections = append(d.objections, a.applied.objections...)
	err = d.enforce(ctx, a.fieldValidation, func(text string) error {
		return newStatusError(http.StatusBadRequest, metav1.StatusReasonBadRequest, "error strict decoding patch: %s", text)
	})
	if err != nil {
		return nil, err
	}
	return sc.finishPatch(ctx, d.doc)
}
