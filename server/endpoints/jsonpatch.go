package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"

	"weir.dev/weir/abi/document"
)

const (
	// maxJSONPatchOperations is upstream's bound; more is 413.
	maxJSONPatchOperations = 10_000
	// maxPatchCopy bounds what copy operations may add, in bytes (CVE-2019-1002100).
	maxPatchCopy = 3 << 20
)

// limitPatchCopies sets the library's bound, which it keeps for the whole process,
// unless that has been set already.
func limitPatchCopies() {
	atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxPatchCopy)
}

// jsonPatch is an RFC 6902 patch.
type jsonPatch struct {
	patchOps   jsonpatch.Patch
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
	if p.patchOps, err = jsonpatch.DecodePatch(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for i, op := range ops {
		if err := checkPatchOp(op); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("json patch operation %d: %v", i, err))
		}
	}
	return p, nil
}

// checkPatchOp refuses what the library would only stumble over.
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
	raw, err := p.apply(live.Bytes())
	if err != nil {
		return decoded{}, newUnprocessable(err.Error())
	}
	doc, err := document.Parse(raw)
	if err != nil {
		return decoded{}, newUnprocessable(err.Error())
	}
	return decoded{doc: doc, objections: p.objections}, nil
}

// apply runs the operations. The library has panicked on hostile patches before,
// and no request may end the server.
func (p *jsonPatch) apply(raw []byte) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the patch cannot be applied")
		}
	}()
	return p.patchOps.Apply(raw)
}
