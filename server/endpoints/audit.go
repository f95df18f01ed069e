package endpoints

import (
	"context"
	"encoding/json"
	"net/http"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/audit"
)

// auditObject has the object that a client sent recorded, where the request is audited. It is called again once the object
// has its defaults: what policies judge is what an audit log should have.
func (sc *scope) auditObject(ctx context.Context, obj *document.Document) {
	if event := audit.From(ctx); event != nil {
		event.Object(ctx, obj, sc.gvr, sc.subresource())
	}
}

// auditDeleteOptions has the options that a client sent recorded.
func (sc *scope) auditDeleteOptions(ctx context.Context, opts *metav1.DeleteOptions) {
	event := audit.From(ctx)
	if event == nil {
		return
	}
	if obj, err := document.FromValue(opts); err == nil {
		event.Object(ctx, obj, sc.gvr, sc.subresource())
	}
}

// auditPatch has a patch recorded. What is no JSON cannot be: the request is refused, as upstream does, so that there is no
// telling a patch by whether it is audited.
func (s *server) auditPatch(ctx context.Context, patchType types.PatchType, body []byte) error {
	event := audit.From(ctx)
	if !event.RecordsObjects() {
		return nil
	}
	if !json.Valid(body) || !utf8.Valid(body) { // the former lets strings have any bytes
		if patchType != types.ApplyYAMLPatchType {
			return nil // it will be refused
		}
		d, err := s.parse(mediaTypeYAML, body)
		if err != nil {
			return apierrors.NewBadRequest("error decoding patch: " + err.Error())
		}
		body = d.doc.Bytes()
	}
	event.Patch(body)
	return nil
}

// writeAnswer has the JSON value that chunks make up recorded, where the request is audited, and writes it.
func writeAnswer(w http.ResponseWriter, req *http.Request, out output, code int, chunks [][]byte) {
	if event := audit.From(req.Context()); event != nil {
		event.Answer(req.Context(), chunks)
	}
	writeChunks(w, req, out, code, chunks)
}
