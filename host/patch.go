package host

import (
	"fmt"

	"weir.dev/weir/abi/document"
)

func applyPatch(*document.Document, []byte) (*document.Document, error) {
	return nil, fmt.Errorf("unimplemented")
}
