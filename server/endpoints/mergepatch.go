package endpoints

import (
	"context"

	"weir.dev/weir/abi/document"
)

// mergePatch is an RFC 7386 patch. It works on documents, so that numbers keep
// their spelling.
type mergePatch struct{ decoded }

var _ patchMechanism = (*mergePatch)(nil)

func (s *server) newMergePatch(body []byte) (*mergePatch, error) {
	d, err := s.parsePatch(body)
	return &mergePatch{d}, err
}

// patch implements patchMechanism.
func (p *mergePatch) patch(_ context.Context, live *document.Document) (decoded, error) {
	doc, err := live.ApplyMergePatch(p.doc)
	if err != nil {
		return decoded{}, newUnprocessable(err.Error())
	}
	return decoded{doc: doc, objections: p.objections}, nil
}
