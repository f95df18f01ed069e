package endpoints

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"weir.dev/weir/abi/document"
)

// strategicPatch merges lists by their keys, as the kind's patchStrategy says.
type strategicPatch struct {
	decoded
	meta strategicpatch.LookupPatchMeta
}

var _ patchMechanism = (*strategicPatch)(nil)

func (s *server) newStrategicPatch(meta strategicpatch.LookupPatchMeta, body []byte) (*strategicPatch, error) {
	d, err := s.parsePatch(body)
	return &strategicPatch{decoded: d, meta: meta}, err
}

// patch implements patchMechanism.
func (p *strategicPatch) patch(_ context.Context, live *document.Document) (decoded, error) {
	merged, err := p.merge(live)
	if err != nil {
		return decoded{}, err
	}
	doc, err := document.FromValue(merged)
	if err != nil {
		return decoded{}, newUnprocessable(err.Error())
	}
	return decoded{doc: doc, objections: p.objections}, nil
}

// merge runs the library on maps of its own, which it changes. An error of it is
// the fault of the patch: the live object is sound.
func (p *strategicPatch) merge(live *document.Document) (merged map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = apierrors.NewBadRequest("the strategic merge patch cannot be applied")
		}
	}()
	original, err := live.Map()
	if err != nil {
		return nil, err
	}
	patch, err := p.doc.Map()
	if err != nil {
		return nil, err
	}
	merged, err = strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(original, patch, p.meta)
	switch {
	case err == nil:
		return merged, nil
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return nil, newUnprocessable(err.Error())
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error applying patch: %v", err))
	}
}
