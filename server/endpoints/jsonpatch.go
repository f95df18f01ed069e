package endpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"

	"weir.dev/weir/abi/document"
)

const (
	// maxJSONPatchOperations is upstream's bound; more is 413.
	maxJSONPatchOperations = 10_000
	// maxPatchedBytes bounds the result and what the operations copy on the way (CVE-2019-1002100).
	maxPatchedBytes = 3 << 20
)

// jsonPatch is an RFC 6902 patch.
type jsonPatch struct {
	operations *document.Document
	objections []string
}

var _ patchMechanism = (*jsonPatch)(nil)

type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func newJSONPatch(body []byte) (*jsonPatch, error) {
	if !json.Valid(body) {
		return nil, apierrors.NewBadRequest("invalid JSON patch")
	}
	var ops []jsonPatchOp
	strictErrs, err := kjson.UnmarshalStrict(body, &ops)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if len(ops) > maxJSONPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, len(ops)))
	}
	p := &jsonPatch{}
	for _, e := range strictErrs {
		p.objections = append(p.objections, "json patch "+e.Error())
	}
	if p.operations, _, err = document.Ingest(body, document.IngestOptions{}); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for i, op := range ops {
		if err := checkPatchOp(op); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("json patch operation %d: %v", i, err))
		}
	}
	return p, nil
}

// checkPatchOp refuses what is no operation, whatever the object is.
func checkPatchOp(op jsonPatchOp) error {
	switch op.Op {
	case "add", "remove", "replace", "test":
	case "move", "copy":
		if op.From != "" && !strings.HasPrefix(op.From, "/") {
			return fmt.Errorf("from %q is no JSON pointer", op.From)
		}
	default:
		return fmt.Errorf("unknown operation %q", op.Op)
	}
	if op.Path != "" && !strings.HasPrefix(op.Path, "/") {
		return fmt.Errorf("path %q is no JSON pointer", op.Path)
	}
	return nil
}

// patch implements patchMechanism.
func (p *jsonPatch) patch(_ context.Context, live *document.Document) (decoded, error) {
	doc, err := live.ApplyPatch(p.operations, maxPatchedBytes)
	if err != nil {
		return decoded{}, newUnprocessable(err.Error())
	}
	return decoded{doc: doc, objections: p.objections}, nil
}
