package endpoints

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// patchMechanism is one type of patch. It is prepared once and applied to every
// live object that storage shows it.
type patchMechanism interface {
	// patch gives the patched object and what a strict reading of the patch objects
	// to. live is of the version served, nil where there is none.
	patch(ctx context.Context, live *document.Document) (decoded, error)
}

// patch serves PATCH of all types. An apply creates what is not there.
func (s *server) patch(w http.ResponseWriter, req *http.Request, sc *scope) error {
	updater, ok := sc.storage.(rest.Updater)
	if !ok {
		return sc.errNotSupported("patch")
	}
	ctx, cancel := context.WithTimeout(sc.context(req.Context()), s.WriteTimeout)
	defer cancel()
	patchType, err := sc.patchType(req)
	if err != nil {
		return err
	}
	out, err := negotiateObject(req)
	if err != nil {
		return err
	}
	opts, err := patchOptions(req, patchType)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, req)
	if err != nil {
		return err
	}
	if err := s.auditPatch(ctx, patchType, body); err != nil {
		return err
	}
	u, err := s.newUpdate(req, sc, patchToUpdate(opts))
	if err != nil {
		return err
	}
	apply := patchType == types.ApplyYAMLPatchType
	if apply {
		a, err := s.newApply(sc, body, opts, u.manager)
		if err != nil {
			return err
		}
		u.compute = a.compute
	} else {
		m, err := s.newPatchMechanism(sc, patchType, body)
		if err != nil {
			return err
		}
		p := &patcher{scope: sc, mechanism: m, fieldValidation: opts.FieldValidation, manager: u.manager}
		u.compute = p.compute
	}
	result, created, err := u.run(ctx, updater, apply, patchToUpdate(opts))
	if err != nil {
		return err
	}
	return s.respond(ctx, w, req, sc, out, updatedCode(created), result)
}

// patchTypes are the types that the resource supports, as a 415 lists them.
func (sc *scope) patchTypes() []string {
	supported := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if sc.version.PatchMeta != nil && sc.ownKind() {
		supported = append(supported, string(types.StrategicMergePatchType))
	}
	if sc.fields != nil {
		supported = append(supported, string(types.ApplyYAMLPatchType))
	}
	return supported
}

// patchType reads Content-Type.
func (sc *scope) patchType(req *http.Request) (types.PatchType, error) {
	mediaType, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if supported := sc.patchTypes(); err != nil || !slices.Contains(supported, mediaType) {
		return "", newUnsupportedMediaType(supported)
	}
	return types.PatchType(mediaType), nil
}

func (s *server) newPatchMechanism(sc *scope, patchType types.PatchType, body []byte) (patchMechanism, error) {
	switch patchType {
	case types.JSONPatchType:
		return newJSONPatch(body)
	case types.MergePatchType:
		return s.newMergePatch(body)
	case types.StrategicMergePatchType:
		return s.newStrategicPatch(sc.version.PatchMeta, body)
	default:
		return nil, newUnsupportedMediaType(sc.patchTypes())
	}
}

// patcher makes of a patch that is no apply the compute of an updateInfo.
type patcher struct {
	scope           *scope
	mechanism       patchMechanism
	fieldValidation string
	manager         string
}

func (p *patcher) compute(ctx context.Context, live *document.Document) (*document.Document, error) {
	sc := p.scope
	if live == nil {
		return nil, sc.newNotFound()
	}
	d, err := p.mechanism.patch(ctx, live)
	if err != nil {
		return nil, err
	}
	if d.doc.Root().Kind() != document.Object {
		return nil, newInvalidPatch(d.doc, "the patched object is no JSON object")
	}
	if d.doc, err = sc.checkPatchedKind(d.doc); err != nil {
		return nil, err
	}
	patched := d.doc
	if d, err = sc.prune(d); err != nil {
		return nil, newInvalidPatch(patched, err.Error())
	}
	if err := d.enforce(ctx, p.fieldValidation, func(text string) error { return newInvalidPatch(patched, text) }); err != nil {
		return nil, err
	}
	obj, err := sc.finishPatch(ctx, d.doc)
	if err != nil {
		return nil, err
	}
	return sc.own(ctx, live, obj, p.manager)
}

// checkPatchedKind refuses a patch that makes another kind of the object.
func (sc *scope) checkPatchedKind(doc *document.Document) (*document.Document, error) {
	kind, apiVersion := doc.Get("kind").String(), doc.Get("apiVersion").String()
	want := sc.kind.GroupVersion().String()
	if kind == sc.kind.Kind && apiVersion == want {
		return doc, nil
	}
	if kind == "" && !sc.resource.Custom {
		kind = sc.kind.Kind
	}
	if apiVersion == "" && !sc.resource.Custom {
		apiVersion = want
	}
	if kind != sc.kind.Kind || apiVersion != want {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a patch must not change apiVersion and kind of the object: have %s %s, want %s %s", apiVersion, kind, want, sc.kind.Kind))
	}
	return doc.Edit().Set(kind, "kind").Set(apiVersion, "apiVersion").Document()
}

// finishPatch checks what the path fixes and defaults the rest.
func (sc *scope) finishPatch(ctx context.Context, doc *document.Document) (*document.Document, error) {
	doc, err := sc.ensureNamespace(doc)
	if err != nil {
		return nil, err
	}
	if err := sc.checkName(doc); err != nil {
		return nil, err
	}
	return sc.defaults(ctx, doc)
}

// newInvalidPatch is the 422 for a patch whose result is no object of the kind.
func newInvalidPatch(patched *document.Document, text string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), string(patched.Bytes()), text),
	})
}

// newUnprocessable is the 422 for a patch that does not fit the object. Upstream
// keeps the cause to itself.
func newUnprocessable(text string) error {
	return newStatusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the patch cannot be applied: %s", text)
}

// parsePatch reads a patch that is a JSON object.
func (s *server) parsePatch(body []byte) (decoded, error) {
	d, err := s.parse(mediaTypeJSON, body)
	if err != nil {
		return d, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if d.doc.Root().Kind() != document.Object {
		return d, apierrors.NewBadRequest("error decoding patch: the patch is no JSON object")
	}
	return d, nil
}

// forced reads the force parameter of an apply.
func forced(opts *metav1.PatchOptions) bool { return opts.Force != nil && *opts.Force }
