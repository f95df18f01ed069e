package endpoints

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// delete serves DELETE of one object.
func (s *server) delete(w http.ResponseWriter, req *http.Request, sc *scope) error {
	deleter, ok := sc.storage.(rest.GracefulDeleter)
	if !ok {
		return sc.errNotSupported("delete")
	}
	ctx, cancel := context.WithTimeout(sc.context(req.Context()), s.WriteTimeout)
	defer cancel()
	out, err := negotiateObject(req)
	if err != nil {
		return err
	}
	opts, err := s.deleteOptions(w, req, sc)
	if err != nil {
		return err
	}
	if ignore := opts.IgnoreStoreReadErrorWithClusterBreakingPotential; ignore != nil && *ignore {
		return s.deleteCorrupt(ctx, w, req, sc, opts)
	}
	attrs, err := sc.attributes(ctx, admission.Delete, opts, opts.DryRun)
	if err != nil {
		return err
	}
	obj, deleted, err := deleter.Delete(ctx, sc.name, s.validateDelete(sc, attrs), opts)
	if err != nil {
		return err
	}
	if obj != nil && !deleted {
		code := http.StatusOK
		if opts.OrphanDependents != nil && !*opts.OrphanDependents { //nolint:staticcheck // upstream's 202 hangs on it
			code = http.StatusAccepted
		}
		return s.respond(ctx, w, req, sc, out, code, obj)
	}
	details := &metav1.StatusDetails{Name: sc.name, Group: sc.gvr.Group, Kind: sc.gvr.Resource}
	if obj != nil {
		details.UID = types.UID(obj.Get("metadata", "uid").String())
	}
	writeStatus(w, req, http.StatusOK, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  details,
	})
	return nil
}

// deleteOptions reads them from the body, else from the query, as upstream: a
// body wins as a whole.
func (s *server) deleteOptions(w http.ResponseWriter, req *http.Request, sc *scope) (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	body, err := s.readBody(w, req)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		err = s.decodeDeleteOptions(req, sc, body, opts)
	} else {
		err = decodeOptions(req, opts)
	}
	if err != nil {
		return nil, err
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	if len(body) > 0 {
		sc.auditDeleteOptions(req.Context(), opts)
	}
	return opts, newInvalidOptions("DeleteOptions", validation.ValidateDeleteOptions(opts))
}

// decodeDeleteOptions takes a DeleteOptions of any group version, or one that does not say what it is.
func (s *server) decodeDeleteOptions(req *http.Request, sc *scope, body []byte, into *metav1.DeleteOptions) error {
	mediaType, err := bodyMediaType(req, mediaTypeJSON, mediaTypeYAML, mediaTypeProtobuf)
	if err != nil {
		return err
	}
	if mediaType == mediaTypeProtobuf {
		err = decodeProtobufDeleteOptions(body, into)
	} else {
		var d decoded
		if d, err = s.parse(mediaType, body); err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(d.doc.Bytes(), into)
		}
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	gv, err := schema.ParseGroupVersion(into.APIVersion)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if into.Kind != "DeleteOptions" && (into.Kind != "" || !sc.servesVersion(gv)) {
		return apierrors.NewBadRequest(fmt.Sprintf("no kind %q is registered for version %q", into.Kind, into.APIVersion))
	}
	return nil
}

// servesVersion reports whether gv is one of metav1's or of a resource's.
func (sc *scope) servesVersion(gv schema.GroupVersion) bool {
	if gv.Empty() || gv == metav1.Unversioned || gv == metav1.SchemeGroupVersion {
		return true
	}
	for _, r := range sc.catalog.Resources() {
		if r.Group == gv.Group && r.Version(gv.Version) != nil {
			return true
		}
	}
	return false
}
